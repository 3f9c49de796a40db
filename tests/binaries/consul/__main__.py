"""`python -m tests.binaries.consul` prints the path of the compiled Consul."""

import sys

from tests.binaries.consul.build import BuildError, build

try:
    print(build())  # noqa: T201  # the path is what a script asks for
except BuildError as error:
    sys.exit(f"{error}\n{BuildError.__doc__}")
