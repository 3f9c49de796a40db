"""Which files an answer may change."""

import os
import re
import stat
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath

from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.tools.code.edit.refusal import Refused


def allowed(root: Path, path: str, may_touch: Sequence[str], protected: Sequence[str]) -> str:
    """The path of a file below `root` that may be changed, or created.

    Raises `Refused` for a path out of the workspace, into a git directory, through a symbolic link
    or to one, to something that is not a regular file, to a `protected` file, or to one that no
    pattern of `may_touch` fits (an empty list allows every file).
    """
    place = _relative(path)
    _check_links(root, place)
    if any(fits(place, pattern) for pattern in protected):
        raise Refused("protected", f"{place} must not be changed: the change is tested by it.")
    if may_touch and not any(fits(place, pattern) for pattern in may_touch):
        raise Refused(
            "may_touch", f"{place} is not one of the files to change: {_list(may_touch)}."
        )
    return place


def fits(place: str, pattern: str) -> bool:
    """Whether a path fits a pattern: `*` and `?` stay within a folder, `**` does not; a folder
    stands for all that is in it.
    """
    return _regex(pattern).fullmatch(place) is not None


@lru_cache(500)
def _regex(pattern: str) -> "re.Pattern[str]":
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    words = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.removeprefix("./").rstrip("/"))
    return re.compile("".join(parts.get(word) or re.escape(word) for word in words) + "(?:/.*)?")


def _relative(path: str) -> str:
    if "\\" in path or not path.isprintable() or not path:
        raise Refused("path_traversal", f"{path!r} is not a path of the workspace: use `/`.")
    given = PurePosixPath(path)
    if given.is_relative_to(WORK):
        given = given.relative_to(WORK)
    if given.is_absolute() or ".." in given.parts or not given.parts or path.startswith("~"):
        raise Refused("path_traversal", f"{path!r} leads out of the workspace.")
    if any(part.casefold() == ".git" for part in given.parts):
        raise Refused("git_directory", f"{path!r} lies in a git directory.")
    return str(given)


def _check_links(root: Path, place: str) -> None:
    parts = PurePosixPath(place).parts
    for number in range(1, len(parts) + 1):
        part = "/".join(parts[:number])
        try:
            mode = os.lstat(root / part).st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise Refused("not_a_file", f"{place!r} cannot be used: {error.strerror}.") from None
        if stat.S_ISLNK(mode):
            raise Refused("symbolic_link", f"{place} leads through the symbolic link {part}.")
        if not (stat.S_ISREG(mode) if number == len(parts) else stat.S_ISDIR(mode)):
            raise Refused("not_a_file", f"{place} is not a regular file.")


def _list(patterns: Sequence[str]) -> str:
    return ", ".join(patterns[:10]) + (" …" if len(patterns) > 10 else "")
