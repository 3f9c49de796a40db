"""The tool that gives a map of a repository."""

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.sandbox.tree import TooLarge
from pipecatapp.tools.code.map.ranking import Graph, Place, by_rank
from pipecatapp.tools.code.map.rendering import fill
from pipecatapp.tools.code.map.tags import tags_of
from pipecatapp.tools.code.symbols.symbols import source_files
from pipecatapp.tools.files.place import workspace
from pipecatapp.tools.memory.tokens import estimated
from pipecatapp.workflow import Context, ToolFailed, tool

WORD: Final = re.compile(r"[A-Za-z_][\w.]{2,}")
PLAIN_WORD: Final = re.compile(r"[A-Z]?[a-z]+")
"""A word of a sentence rather than the name of a definition."""
NAMED_IN_TEXT: Final = 0.3
"""The weight of a name in a text beside that of a symbol."""
AMBIGUOUS: Final = 5
"""A word of a text with more definitions than this is ignored."""


class Shown(BaseModel):
    """A definition in the map."""

    path: str
    symbol: str = Field(description="The qualified name.")
    line: int


class RepositoryMap(BaseModel):
    """The most relevant definitions of a repository, as text for a prompt."""

    text: str = Field(description="Files, and below each its definitions with their lines.")
    shown: list[Shown] = Field(description="Path, qualified name and line of what the text has.")
    left_out: int = Field(description="Definitions that are not in the text.")
    unread: list[str] = Field(description="Source files that cannot be read, or are too large.")
    tokens: int = Field(description="Estimate for `text`; at most the budget.")


@tool("code.map", effect="read", version=1, workspace=True)
async def code_map(
    ctx: Context,
    symbols: Annotated[
        list[str],
        Field(
            description="Names to start from, such as those of code.localise, or `file:name`."
            " Definitions that they use or that use them are listed first. Without any, the most"
            " used definitions are listed first."
        ),
    ] = [],  # noqa: B006
    text: Annotated[
        str, Field(description="A request; definitions that it names count as well.")
    ] = "",
    budget: Annotated[int, Field(description="Tokens of the map.", ge=64, le=32000)] = 1000,
) -> RepositoryMap:
    """Map the repository: its most relevant classes and functions with their headers and lines.

    Uses are counted with PageRank. No model is called, and the same files give the same map.
    """
    root = workspace(ctx)
    try:
        files = await source_files(root)
    except (OSError, TooLarge) as error:
        raise ToolFailed(f"The workspace cannot be listed: {error}.") from error
    tags = await tags_of(ctx, root, files)
    graph = await asyncio.to_thread(Graph, tags)
    return await asyncio.to_thread(
        _mapped, graph, symbols, text, budget, [path for path in files if path not in tags]
    )


def _mapped(
    graph: Graph, symbols: Sequence[str], text: str, budget: int, unread: list[str]
) -> RepositoryMap:
    ranks = graph.ranks(seeds_of(graph, symbols, text))
    # Definitions that no seed reaches come last, in the order of the files.
    ordered = by_rank(graph.places(), ranks)
    written, shown = fill(graph, ordered, budget)
    tags = [(place[0], graph.tag(place)) for place in shown]
    return RepositoryMap(
        text=written,
        shown=[Shown(path=path, symbol=tag.qualified, line=tag.line) for path, tag in tags],
        left_out=len(ordered) - len(shown),
        unread=unread,
        tokens=estimated(written) if written else 0,
    )


def seeds_of(graph: Graph, symbols: Sequence[str], text: str) -> dict[Place, float]:
    """The definitions to begin with: the earlier of symbols count more."""
    seeds: dict[Place, float] = {}
    for number, symbol in enumerate(dict.fromkeys(symbols)):
        found = graph.named(symbol)
        for place in found:
            seeds[place] = seeds.get(place, 0.0) + 1 / (1 + number) / len(found)
    for word in dict.fromkeys(WORD.findall(text)):
        found = [] if PLAIN_WORD.fullmatch(word) else graph.named(word.strip("."))
        for place in found if len(found) <= AMBIGUOUS else ():
            seeds[place] = seeds.get(place, 0.0) + NAMED_IN_TEXT / len(found)
    return seeds
