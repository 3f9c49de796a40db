"""The version of the installed distribution."""

from functools import cache
from importlib.metadata import version


@cache
def hearth_version() -> str:
    """Return the version, such as `0.1.0`."""
    return version("hearth")
