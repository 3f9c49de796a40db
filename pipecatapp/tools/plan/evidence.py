"""The tool that looks in the code for what the steps of a plan name."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.sandbox.tree import NotPlain, TooLarge, open_plain
from pipecatapp.tools.code.map.ranking import Graph, Place
from pipecatapp.tools.code.map.tags import tags_of
from pipecatapp.tools.code.symbols.symbols import source_files
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.tools.plan.steps import CheckedStep
from pipecatapp.workflow import Context, ToolFailed, tool

LINES: Final = 40
"""Lines of a definition or file that an excerpt has, at most."""
LARGEST: Final = 1 << 20


class Named(BaseModel):
    """A definition that a step names."""

    name: str
    path: str
    line: int


class StepEvidence(BaseModel):
    """The result of the search for one step."""

    id: str
    goal: str
    missing: list[str] = Field(
        description="Files, folders and definitions that the step names and that do not exist, "
        "and files that are empty."
    )
    found: list[str] = Field(description="Those that exist, with file and line.")
    excerpt: str = Field(description="The code of those that exist, for a person or a model.")


class PlanEvidence(BaseModel):
    """The evidence for each step of a plan."""

    steps: list[StepEvidence] = Field(description="Each with what exists and what is missing.")
    unread: list[str] = Field(description="Source files that cannot be read, or are too large.")


@tool("plan.evidence", effect="read", version=1, workspace=True)
async def evidence(
    ctx: Context,
    steps: Annotated[list[CheckedStep], Field(description="The steps that `plan.steps` gives.")],
    characters: Annotated[
        int, Field(description="Characters of the excerpt of a step.", ge=200, le=20_000)
    ] = 4000,
) -> PlanEvidence:
    """Look in the workspace for the files and definitions that each step of a plan names.

    A definition is found by its name, its qualified name or the end of one. No model is called.
    """
    root = workspace(ctx)
    try:
        files = await source_files(root)
    except (OSError, TooLarge) as error:
        raise ToolFailed(f"The workspace cannot be listed: {error}.") from error
    tags = await tags_of(ctx, root, files)
    graph = await asyncio.to_thread(Graph, tags)
    return PlanEvidence(
        steps=[await asyncio.to_thread(_evidence, root, graph, step, characters) for step in steps],
        unread=[path for path in files if path not in tags],
    )


def _evidence(root: Path, graph: Graph, step: CheckedStep, characters: int) -> StepEvidence:
    missing, found, excerpts = list[str](), list[str](), list[str]()
    for path in step.files:
        problem, text = _file(root, path)
        if problem:
            missing.append(f"{path}: {problem}")
        else:
            found.append(path)
            excerpts += [f"{path}:\n{text}"] if text and not step.names else []
    for name in step.names:
        places = graph.named(name)
        if not places:
            missing.append(f"{name}: no such definition")
        for place in places[:3]:
            found.append(f"{name}: {place[0]}:{graph.tag(place).line}")
            excerpts.append(_definition(root, graph, place))
    return StepEvidence(
        id=step.id,
        goal=step.goal,
        missing=missing,
        found=found,
        excerpt="\n\n".join(excerpts)[:characters],
    )


def _file(root: Path, path: str) -> tuple[str, str]:
    """Return why a file is missing, or its first lines; a folder has none."""
    try:
        place = root / inside(root, path)
    except ToolFailed as error:
        return str(error).rstrip("."), ""
    if path.endswith("/") and place.is_dir():
        return "", ""
    if not place.is_file():
        return "does not exist", ""
    if place.stat().st_size == 0 and place.name != "__init__.py":
        return "is empty", ""
    return "", "\n".join(_lines(root, path)[:LINES])


def _definition(root: Path, graph: Graph, place: Place) -> str:
    tag = graph.tag(place)
    lines = _lines(root, place[0])[tag.start - 1 : min(tag.end, tag.start + LINES)]
    return f"{place[0]}:{tag.line}:\n" + "\n".join(lines)


def _lines(root: Path, path: str) -> list[str]:
    """Return the lines of a text file; none of one that cannot be read."""
    try:
        with os.fdopen(open_plain(root, inside(root, path)), "rb") as file:
            return file.read(LARGEST).decode(errors="replace").splitlines()
    except (OSError, NotPlain):
        return []
