"""The command that runs a project's tests: how it is started, and how some of them are chosen."""

import shlex
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.workflow import ToolFailed

REPORT: Final = ".hearth-junit.xml"
"""Path of the report in the workspace; it is removed afterwards."""
RUNNERS: Final = frozenset({"pytest", "py.test"})
WITH_VALUE: Final = frozenset(
    {
        "-c", "-k", "-m", "-n", "-o", "-p", "-W", "--basetemp", "--config-file", "--confcutdir",
        "--cov", "--cov-config", "--deselect", "--ignore", "--ignore-glob", "--import-mode",
        "--junit-xml", "--junitxml", "--log-file", "--rootdir",
    }
)  # fmt: skip
"""Options of pytest whose value is the next word, which may look like a path."""
ENTER: Final = 'cd "$1" || exit 125; shift; exec "$@"'


def words_of(command: str | Sequence[str]) -> list[str]:
    """Split a command. A text with operators or variables of the shell is left to the shell."""
    if not isinstance(command, str):
        words = list(command)
    else:
        try:
            lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            lexer.commenters = ""
            words = list(lexer)
        except ValueError as error:
            raise ToolFailed(f"The test command is not complete: {error}.") from None
        if words and (any(_operator(word) for word in words) or "=" in words[0] or "$" in command):
            words = ["/bin/sh", "-c", command]
    if not words or not words[0]:
        raise ToolFailed("Give the `command` that runs the tests, such as `pytest -q`.")
    return words


def _operator(word: str) -> bool:
    return not set(word) - set("();<>|&")


def runner_at(words: Sequence[str]) -> int | None:
    """Return the index of the word `pytest`; None if the command is another program."""
    for index, word in enumerate(words[:8]):
        is_first = index == 0 or words[index - 1] in ("-m", "run", "exec")
        if is_first and PurePosixPath(word).name in RUNNERS:
            return index
    return None


def chosen(words: Sequence[str], tests: Sequence[str], folder: Path) -> list[str]:
    """Return the command with these tests in place of the paths that it names.

    `folder` is the project folder. Raises `ToolFailed` for a command that is not pytest.
    """
    at = runner_at(words)
    if at is None:
        raise ToolFailed("Tests can be chosen only for a command that is pytest itself.")
    if wrong := next((test for test in tests if not test or test.startswith("-")), None):
        raise ToolFailed(f"{wrong!r} is not the id of a test.")
    kept = list(words[: at + 1])
    for word in words[at + 1 :]:
        path = word.partition("::")[0]
        value = kept[-1] in WITH_VALUE
        if value or word.startswith("-") or not (path and (folder / path).exists()):
            kept.append(word)
    return [*kept, *tests]


def inside(words: Sequence[str], folder: str) -> list[str]:
    """Return the command that runs `words` in a folder of the workspace."""
    if not folder:
        return list(words)
    return ["/bin/sh", "-c", ENTER, "sh", f"{WORK}/{folder}", *words]


def options_of_pytest(folder: str, seconds: float) -> list[str]:
    """Return the options with which pytest reports each test.

    They are for `PYTEST_ADDOPTS`, which it reads also if another program such as make starts it.
    Test ids are relative to the project folder, nothing is written there, and a test that hangs
    shows its stack before the limit of time ends it.
    """
    return [
        f"--junitxml={WORK}/{REPORT}",
        "-ojunit_family=xunit1",
        "-ocache_dir=/tmp/pytest-cache",
        f"-ofaulthandler_timeout={seconds * 0.5:.3f}",
        f"--rootdir={PurePosixPath(WORK, folder)}",
    ]
