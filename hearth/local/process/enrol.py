"""Register with the warden and become a service: `enrol.py FD PROGRAM [ARGUMENT…]`.

The new process writes its own id into the warden's pipe before it becomes the program. If the
supervisor wrote it, a supervisor killed at that moment would leave an orphaned service.
"""

import os
import sys


def main() -> None:
    pipe, command = int(sys.argv[1]), sys.argv[2:]
    os.write(pipe, b"%d\n" % os.getpid())
    os.set_inheritable(pipe, False)  # noqa: FBT003 - the function takes no keyword
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
