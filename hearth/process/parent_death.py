"""Let a process end with its parent, however the parent ends (Linux only).

`parent_death.py PROGRAM [ARGUMENT…]` sets this up and then becomes the program. It imports only the
standard library, so that it starts quickly.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""See prctl(2); the setting survives execve(2)."""


def end_with_parent(number: signal.Signals) -> None:
    """Let the kernel send a signal to this process when its parent ends (Linux only)."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def main() -> None:
    """Become the program that the arguments name by its path."""
    end_with_parent(signal.SIGKILL)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
