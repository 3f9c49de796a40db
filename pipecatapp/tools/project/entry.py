"""The tool that determines how a program is started."""

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.tools.code.language.identify import identify
from pipecatapp.tools.code.language.languages import Language
from pipecatapp.workflow import Context, tool


class EntryPoint(BaseModel):
    """The file that a program is started with."""

    file: str | None = Field(description="Its path; null if there is a problem.")
    language: str | None = Field(description="The language of the file, if it is known.")
    command: str = Field(description="The command line that starts it.")
    ignore: list[str] = Field(
        description="Lines of a .gitignore for the files that running it leaves in its folder."
    )
    problem: str = Field(description="Why no file is started, for the next prompt; else empty.")


@tool("project.entry", effect="pure", version=1)
async def entry(
    ctx: Context,
    files: Annotated[
        list[str], Field(description="The files of the program, the first one started first.")
    ],
    command: Annotated[
        str,
        Field(description="The command line that starts it; empty for one that fits its language."),
    ] = "",
) -> EntryPoint:
    """Determine the one file of a program that is started, and the command line for it.

    A command that starts none of the files is a problem: a plan with it would run something else.
    """
    first = next((path for path in files if _started(path)), None)
    if not command.strip() and first is not None:
        command = _language(first).start.format(shlex.quote(first))
    file = _named(files, command)
    problem = "" if file is not None else _problem(files, command)
    language = identify(file).language if file is not None else None
    languages = dict.fromkeys(found for path in files if (found := identify(path).language))
    return EntryPoint(
        file=file,
        language=language.name if language is not None else None,
        command=command.strip(),
        ignore=[line for one in languages for line in one.ignored],
        problem=problem,
    )


def _language(path: str) -> Language:
    return identify(path).language or Language("")


def _started(path: str) -> bool:
    return bool(_language(path).start)


def _named(files: Sequence[str], command: str) -> str | None:
    """The first source file that the command names; else another file that it names."""
    words = _words(command)
    places = [word.removeprefix(f"{WORK}/").removeprefix("./") for word in words]
    for at, word in enumerate(words[:-1]):
        if word == "-m":
            module = words[at + 1].replace(".", "/")
            places += [f"{module}.py", f"{module}/__main__.py"]
    known = {str(PurePosixPath(path)): path for path in files}
    if words[:1] == ["make"]:
        places += [path for path in known if _language(path).name == "Make"]
    named = [known[place] for place in places if place in known]
    return next((path for path in named if _started(path)), named[0] if named else None)


def _words(command: str) -> list[str]:
    """The words of a command line; also those inside of a quoted one."""
    try:
        words = shlex.split(command.replace("<", " ").replace("|", " "))
    except ValueError:
        words = command.split()
    return [inner.strip("'\"();&") for word in words for inner in (word, *word.split()[1:])]


def _problem(files: Sequence[str], command: str) -> str:
    listed = ", ".join(files) or "none"
    if not command.strip():
        return f"No command line starts the program, and none is known for its files ({listed})."
    return (
        f"The command {command.strip()!r} starts none of the planned files ({listed}). Name one of"
        " them in it, the one entry point."
    )
