"""The knowledge of this home, for the interfaces: sources, their state, and the search in them."""

from pydantic import BaseModel, Field

from pipecatapp.tools.knowledge.knowledge import (
    Knowledge,
    Source,
    SourceDetail,
    SourceExists,
    SourceRefused,
    UnknownPassage,
    UnknownSource,
    citation,
)
from pipecatapp.tools.knowledge.ranking import Ranking
from pipecatapp.tools.knowledge.search import FoundPassage, found_passage
from pipecatapp.tools.knowledge.store import IndexDamaged, StoredPassage

__all__ = [
    "IndexDamaged", "Knowledge", "PassageInDocument", "SearchResult", "Source", "SourceDetail",
    "SourceExists", "SourceRefused", "UnknownPassage", "UnknownSource", "result_of", "shown",
]  # fmt: skip


class SearchResult(BaseModel):
    """Passages, the best first."""

    passages: list[FoundPassage]
    others: list[FoundPassage] = Field(description="Passages that hardly fit.")
    sources: list[str] = Field(description="Names of the sources that were searched.")
    by_words: str = Field(
        description="Why only words were compared; empty if the meaning was, too."
    )


class PassageInDocument(BaseModel):
    """A passage with its text before and behind it."""

    citation: str
    source: str
    path: str
    heading: str
    page: int
    line: int
    last_line: int
    before: str
    text: str
    after: str


def result_of(ranking: Ranking) -> SearchResult:
    """Return a ranking as interfaces show it."""
    return SearchResult(
        passages=[found_passage(one) for one in ranking.passages if one.is_relevant],
        others=[found_passage(one) for one in ranking.passages if not one.is_relevant],
        sources=ranking.sources,
        by_words=ranking.by_words,
    )


def shown(id: int, near: list[StoredPassage]) -> PassageInDocument:
    """Return the passage `id` of `near`, with the others as the text before and behind it."""
    place = next(number for number, one in enumerate(near) if one.id == id)
    passage = near[place]
    return PassageInDocument(
        citation=citation(passage),
        source=passage.source,
        path=passage.path,
        heading=passage.heading,
        page=passage.page,
        line=passage.line,
        last_line=passage.last,
        before="\n\n".join(one.text for one in near[:place]),
        text=passage.text,
        after="\n\n".join(one.text for one in near[place + 1 :]),
    )
