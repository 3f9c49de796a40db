"""`python -m tests.binaries.home_assistant` prints the path of the root with Home Assistant."""

import sys

from hearth.lab.errors import LabError
from tests.binaries.home_assistant.root import BuildError, root

try:
    print(root())  # noqa: T201  # the path is what a script asks for
except (BuildError, LabError) as error:
    sys.exit(f"{error}\n{type(error).__doc__}")
