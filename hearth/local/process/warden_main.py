"""Ends the services when `hearth up` was killed and cannot do it itself.

Started by file name with a bare interpreter, so it needs few resources. Its standard input is a
pipe whose other end only the supervisor holds: `123` registers process group 123, `-123`
unregisters it. When the supervisor ends for any reason, the kernel closes the pipe; the registered
groups then get SIGTERM, and SIGKILL after a while.
"""

import os
import signal
import sys
import time

GRACE_SECONDS = 5.0


def main() -> None:
    groups: set[int] = set()
    for line in sys.stdin:
        number = int(line)
        if number > 0:
            groups.add(number)
        else:
            groups.discard(-number)
    end(groups)


def end(groups: set[int]) -> None:
    """Stop these process groups, those that do not follow by force."""
    left = {group for group in groups if send(group, signal.SIGTERM)}
    deadline = time.monotonic() + GRACE_SECONDS
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = {group for group in left if send(group, 0)}
    for group in left:
        send(group, signal.SIGKILL)


def send(group: int, number: int) -> bool:
    """Signal a process group; whether it exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, signal.SIG_IGN)
    main()
