"""Search passages by words and by meaning, among the sources that a key may read.

Sources are selected before anything is counted or compared, so a source that the key may not read
has no influence on the order or the scores.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from pipecatapp.tools.knowledge.embedding import EmbeddingModel, EmbeddingsUnavailable
from pipecatapp.tools.knowledge.store import KnowledgeStore, SourceRow, StoredPassage
from pipecatapp.tools.search.query import expression, phrases

CANDIDATES: Final = 50
"""Passages of each list, by words and by meaning, that are merged."""
RANK_OFFSET: Final = 60
"""Constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)."""
MEANING: Final = 0.34
"""How much closer than the background a relevant passage is: 0 is as close, 1 is identical."""
COVERAGE: Final = 0.5
"""Part of the weight of a question's words that is in a relevant passage."""

LONG: Final = 6
"""Letters of a word that is seldom an article or another word without a subject."""

SMALL: Final = 1000
"""Passages of an index in which every word is used."""
REMEMBERED: Final = 10_000
"""Words whose frequency is remembered."""


class UnknownSource(LookupError):
    """There is no such source, or the key may not read it."""


@dataclass(frozen=True)
class Ranked:
    """A passage that was found. `score` is that of reciprocal rank fusion.

    `meaning` and `coverage` are described at the constants of these names.
    """

    passage: StoredPassage
    score: float
    meaning: float | None
    coverage: float

    @property
    def is_relevant(self) -> bool:
        return self.coverage >= COVERAGE or (self.meaning or 0.0) >= MEANING


@dataclass(frozen=True)
class Ranking:
    """Passages, the best first; `sources` are the names of those that were searched.

    `by_words`: why the meaning was not compared; empty if it was.
    """

    passages: list[Ranked]
    sources: list[str]
    by_words: str = ""


@dataclass
class _Scores:
    total: dict[int, float] = field(default_factory=dict)
    cosines: dict[int, float] = field(default_factory=dict)

    def add(self, ids: Sequence[int]) -> None:
        for rank, id in enumerate(ids, 1):
            self.total[id] = self.total.get(id, 0.0) + 1 / (RANK_OFFSET + rank)


class Search:
    """Searches the index; keeps the vectors of sources in memory until they change."""

    def __init__(self, store: KnowledgeStore, model: EmbeddingModel) -> None:
        self._store, self._model = store, model
        self._matrices: dict[int, tuple[int, Any]] = {}
        self._frequencies: dict[tuple[int, str], tuple[int, int]] = {}

    async def readable(self, reader: str, names: Sequence[str] = ()) -> list[SourceRow]:
        """Return the sources that a key may read, only those with `names` if there are any.

        Raises `UnknownSource`.
        """
        sources = await asyncio.to_thread(self._store.sources)
        allowed = {one.name: one for one in sources if one.is_readable(reader)}
        for name in names:
            if name not in allowed:
                known = ", ".join(allowed) or "none"
                raise UnknownSource(f"There is no source {name!r}. Known sources: {known}.")
        return [one for name, one in allowed.items() if not names or name in names]

    async def find(
        self,
        query: str,
        *,
        reader: str,
        names: Sequence[str] = (),
        limit: int,
        meaning: bool = True,
    ) -> Ranking:
        """Return the passages that fit best. `meaning`: also compare vectors."""
        sources = await self.readable(reader, names)
        vector, by_words = await self._embedded(query) if meaning and sources else (None, "")
        ranked = await asyncio.to_thread(self._ranked, query, sources, vector, limit)
        return Ranking(ranked, [one.name for one in sources], by_words)

    async def _embedded(self, query: str) -> tuple[Any, str]:
        model = await asyncio.to_thread(self._store.model)
        if not model:
            return None, "No passage is embedded yet."
        try:
            [numbers] = await self._model.embed(model, [query], query=True)
            vector = (await asyncio.to_thread(_vectors)).normalized(numbers)
        except (EmbeddingsUnavailable, ValueError) as error:
            return None, str(error)
        return vector, ""

    def _ranked(
        self, query: str, sources: list[SourceRow], vector: Any, limit: int
    ) -> list[Ranked]:
        scores, words = _Scores(), self._words(query, sources)
        if words:
            expressed = " OR ".join(words)
            matches = [
                match
                for one in sources
                for match in self._store.matching(one.id, expressed, CANDIDATES)
            ]
            matches.sort(key=lambda match: -match[1])
            scores.add([id for id, _ in matches[:CANDIDATES]])
        if vector is not None:
            near = [
                one
                for source in sources
                for one in self._matrix(source, len(vector)).nearest(vector, CANDIDATES)
            ]
            near.sort(key=lambda one: -one[1])
            scores.cosines = dict(near)
            scores.add([id for id, _ in near[:CANDIDATES]])
        best = sorted(scores.total, key=lambda id: (-scores.total[id], id))[:limit]
        found = self._store.passages(best, [one.id for one in sources])
        coverage = self._coverage(words, sources, best)
        floor = self._background(vector)
        return [
            Ranked(
                found[id],
                scores.total[id],
                _above(scores.cosines.get(id), floor),
                coverage.get(id, 0.0),
            )
            for id in best
            if id in found
        ]

    def _matrix(self, source: SourceRow, size: int) -> Any:
        stamp, matrix = self._matrices.get(source.id, (-1, None))
        if matrix is None or stamp != source.stamp:
            matrix = _vectors().Matrix(self._store.vectors(source.id), size)
            self._matrices[source.id] = (source.stamp, matrix)
        return matrix

    def forget(self, source: int) -> None:
        """Free the memory of a source that was removed."""
        self._matrices.pop(source, None)

    def _background(self, vector: Any) -> float:
        if vector is None:
            return 0.0
        return float(_vectors().product(self._store.background(), vector))

    def _words(self, query: str, sources: list[SourceRow]) -> dict[str, float]:
        """Return expressions for the words of a query, with their weights.

        The weight of a word is its inverse document frequency, less for a short word: a few
        documents do not show which words are frequent, and frequent words are short. In many
        passages, words that are in a fifth of them are left out: they cost time and say nothing.
        """
        total = sum(self._frequency(one, "") for one in sources)
        most = max(SMALL, total // 5)
        weights: dict[str, float] = {}
        frequent: dict[str, float] = {}
        for word in dict.fromkeys(phrases(query)):
            asked = expression([word], every=True)
            count = sum(self._frequency(one, asked) for one in sources)
            # A word that is nowhere says no more than one that is in one passage.
            ratio = (total - count + 0.5) / (max(1, count) + 0.5)
            (weights if count <= most else frequent)[asked] = _length(word) * math.log1p(ratio)
        return weights or frequent

    def _frequency(self, source: SourceRow, word: str) -> int:
        stamp, count = self._frequencies.get((source.id, word), (-1, 0))
        if stamp != source.stamp:
            if len(self._frequencies) >= REMEMBERED:
                self._frequencies.clear()
            count = self._store.frequency(source.id, word)
            self._frequencies[source.id, word] = (source.stamp, count)
        return count

    def _coverage(
        self, words: dict[str, float], sources: list[SourceRow], ids: list[int]
    ) -> dict[int, float]:
        """Return which part of the weight of the words is in each passage."""
        whole = sum(words.values())
        if not whole or not ids:
            return {}
        covered: dict[int, float] = {}
        for word, weight in words.items():
            for source in sources:
                for id in self._store.containing(source.id, word, ids):
                    covered[id] = covered.get(id, 0.0) + weight
        return {id: part / whole for id, part in covered.items()}


def _vectors() -> ModuleType:
    return import_module("pipecatapp.tools.knowledge.vectors")


def _length(word: str) -> float:
    """Return the part of its weight that a word has by its length; all of it for a number."""
    letters = sum(map(str.isalnum, word))
    return 1.0 if any(map(str.isdigit, word)) else min(1.0, letters / LONG)


def _above(cosine: float | None, floor: float) -> float | None:
    """Return how far a cosine is above the background, as a part of the way to 1."""
    return None if cosine is None else max(0.0, (cosine - floor) / (1 - floor))
