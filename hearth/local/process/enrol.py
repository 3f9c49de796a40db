"""Become a service that the warden knows of: `enrol.py FD PROGRAM [ARGUMENT…]`.

The new process writes its own id into the warden's pipe before it becomes the program. Were it
written by the supervisor, a supervisor killed in between would leave a service that nobody ends.
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
