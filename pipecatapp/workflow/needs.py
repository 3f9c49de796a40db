"""Things that a tool needs on the machine: optional Python packages and programs."""

import shutil
from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Package:
    """A Python package of an extra of Hearth, such as `Package("playwright", extra="browser")`.

    `name` is the name that Python imports.
    """

    name: str
    extra: str

    def missing(self) -> str:
        """Return a sentence if the package is not installed, otherwise an empty text."""
        if find_spec(self.name) is not None:
            return ""
        return f"The Python package {self.name} is missing. It is in Hearth's extra `{self.extra}`."

    def __str__(self) -> str:
        return f"the extra `{self.extra}` (Python package `{self.name}`)"


@dataclass(frozen=True)
class Program:
    """A program that a package of the system installs, such as
    `Program("chromium", apt="chromium", others=("google-chrome",))`.

    One of `others` does, too.
    """

    name: str
    apt: str
    others: tuple[str, ...] = ()

    def missing(self) -> str:
        """Return a sentence if none of the programs is on the PATH, otherwise an empty text."""
        if self.path() is not None:
            return ""
        return f"The program {self.name} is missing. Install it with `apt install {self.apt}`."

    def path(self) -> str | None:
        """Return the path of the first of the programs that is on the PATH, or None."""
        found = (shutil.which(name) for name in (self.name, *self.others))
        return next((path for path in found if path), None)

    def __str__(self) -> str:
        return f"the program `{self.name}` (Debian package `{self.apt}`)"


@dataclass(frozen=True)
class Setting:
    """A setting without which a tool cannot work, such as
    `Setting("PIPECATAPP_SEARXNG_URL", example="http://127.0.0.1:8888")`.

    The application adds it to the tool if it is not set.
    """

    name: str
    example: str

    def missing(self) -> str:
        """Return the sentence that names the setting."""
        return f"The setting {self.name} is not set. Set it, such as to {self.example}."

    def __str__(self) -> str:
        return f"the setting `{self.name}`"


Need = Package | Program | Setting
