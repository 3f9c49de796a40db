"""Keep the index equal to the documents: compare files, cut them into passages, embed these."""

import asyncio
import hashlib
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Final, Literal

import structlog

from pipecatapp.tools.knowledge.embedding import EmbeddingModel, EmbeddingsUnavailable, TextRefused
from pipecatapp.tools.knowledge.passages import Passage
from pipecatapp.tools.knowledge.reading import (
    Found,
    Reader,
    SourceGone,
    Unreadable,
    content,
    files_of,
)
from pipecatapp.tools.knowledge.store import IndexDamaged, KnowledgeStore, KnownFile, SourceRow

log = structlog.get_logger()

BATCH: Final = 4
"""Passages of one request: short enough that a question does not wait for long."""
AHEAD: Final = 256
"""Passages that are read from the index at once."""
MOST_PASSAGES: Final = 20_000
"""Passages of one file."""
REST: Final = 20
"""A comparison is repeated after this many times its own duration, at the earliest."""
BACKGROUND: Final = (
    "The recipe needs flour, sugar and three eggs.",
    "The football team won the final match.",
    "Photosynthesis turns light into chemical energy.",
    "The king signed the treaty in 1648.",
    "Der Zug nach Hamburg hat Verspätung.",
    "Interest rates were raised by the central bank.",
    "She plays the violin in an orchestra.",
    "Die Katze schläft auf dem Sofa.",
    "The patient was given antibiotics for a week.",
    "The mountain is 4,000 metres high.",
    "Le musée est fermé le lundi.",
    "The program returns an error if the file is missing.",
)
"""Texts about anything: a passage fits a question only if it is much more similar than these."""

State = Literal["waiting", "reading", "embedding", "ready"]


@dataclass
class Progress:
    """The work on a source. `done` of `total` changed files are read."""

    state: State = "waiting"
    done: int = 0
    total: int = 0


class Indexer:
    """Updates sources one after another, in the background. The only writer of passages."""

    def __init__(self, store: KnowledgeStore, model: EmbeddingModel, reader: Reader) -> None:
        self._store, self._model, self._reader = store, model, reader
        self._wanted: dict[int, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._progress: dict[int, Progress] = {}
        self._compared = 0.0
        """Seconds that were spent on finding changes since the last look at all sources."""
        self.waiting_for = ""
        """Why passages cannot be embedded now; empty if they can."""

    def progress(self, source: int) -> Progress:
        """Return the work on a source."""
        progress = self._progress.get(source, Progress("ready"))
        if source in self._wanted and progress.state == "ready":
            return Progress("waiting")
        return progress

    def request(self, sources: Sequence[int]) -> None:
        """Update these sources soon, after those that were requested before."""
        for source in sources:
            self._wanted[source] = None
        if self._wanted and self._task is None:
            self._task = asyncio.create_task(self._work())

    async def watch(self, seconds: float) -> None:
        """Compare all sources with their documents again and again, until cancelled."""
        while True:
            self._compared = 0.0
            try:
                sources = await asyncio.to_thread(self._store.sources)
            except (sqlite3.Error, IndexDamaged) as error:
                log.error("knowledge_unreadable", reason=str(error))
                sources = []
            self.request([one.id for one in sources])
            await self.settled()
            await asyncio.sleep(max(seconds, REST * self._compared))

    async def settled(self) -> None:
        """Wait until no update is wanted any more."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def removed(self, source: int) -> None:
        """Forget a source that was removed."""
        self._wanted.pop(source, None)
        self._progress.pop(source, None)

    async def close(self) -> None:
        """Stop. Unfinished work is continued after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        try:
            while self._wanted:
                # All files first: words are found at once, and embedding takes much longer.
                read: list[int] = []
                while self._wanted:
                    source = next(iter(self._wanted))
                    del self._wanted[source]
                    if await self._compare(source):
                        read.append(source)
                for source in read:
                    await self._embed(source)
        finally:
            self._task = None

    async def _compare(self, id: int) -> bool:
        """Read new and changed files, and forget those that are gone. False after an error."""
        source = await self._source(id)
        if source is None:
            self.removed(id)
            return False
        error = ""
        self._progress[id] = Progress("reading")
        try:
            await self._read_changes(source)
        except SourceGone as gone:
            error = str(gone)
        except (sqlite3.Error, IndexDamaged, OSError) as failure:
            error = f"The index cannot be changed: {failure}."
        if error != source.error or not source.checked or self.progress(id).total:
            if error:
                log.warning("knowledge_not_updated", source=source.name, reason=error)
            await asyncio.to_thread(self._store.checked, id, error)
        if error:
            self._progress[id] = Progress("ready")
        return not error

    async def _source(self, id: int) -> SourceRow | None:
        sources = await asyncio.to_thread(self._store.sources)
        return next((one for one in sources if one.id == id), None)

    async def _read_changes(self, source: SourceRow) -> None:
        started = time.monotonic()
        found = await asyncio.to_thread(files_of, source.paths)
        known = await asyncio.to_thread(self._store.files, source.id)
        self._compared += time.monotonic() - started
        changed = [one for one in found if _is_changed(one, known.get(one.path))]
        gone = known.keys() - {one.path for one in found}
        progress = self._progress[source.id] = Progress("reading", total=len(changed) + len(gone))
        if gone:
            await asyncio.to_thread(self._store.forget, source.id, sorted(gone))
            progress.done += len(gone)
        for file in changed:
            await self._read(source, file, known.get(file.path))
            progress.done += 1

    async def _read(self, source: SourceRow, file: Found, known: KnownFile | None) -> None:
        """Replace the passages of one file, in one transaction."""
        digest, passages, error = b"", [], ""
        try:
            data = await asyncio.to_thread(content, file)
            digest = hashlib.sha256(data).digest()
            if known is not None and known.sha256 == digest:
                await asyncio.to_thread(self._store.touch, known.id, file.state)
                return
            passages = _limited(await self._reader.passages(file, data))
        except Unreadable as problem:
            error = str(problem)
        await asyncio.to_thread(
            self._store.replace, source.id, file.path, file.state, digest, passages, error
        )

    async def _embed(self, id: int) -> None:
        """Embed passages of a source that have no vector, until none is left or it fails."""
        progress = self._progress[id]
        progress.state = "embedding"
        try:
            model = await self._usable_model() if await self._other_model() else ""
            while rows := await asyncio.to_thread(self._store.without_vector, id, AHEAD):
                model = model or await self._usable_model()
                for start in range(0, len(rows), BATCH):
                    await self._embed_batch(id, model, rows[start : start + BATCH])
            self.waiting_for = ""
        except EmbeddingsUnavailable as error:
            if self.waiting_for != str(error):
                log.warning("knowledge_not_embedded", reason=str(error))
            self.waiting_for = str(error)
        except ValueError as error:
            self.waiting_for = f"A vector cannot be used: {error}."
        except sqlite3.Error as error:
            self.waiting_for = f"The index cannot be changed: {error}."
        self._progress[id] = Progress("ready")

    async def _other_model(self) -> bool:
        """Return whether the settings name another model than that of the index."""
        wanted = self._model.wanted
        return bool(wanted) and wanted != await asyncio.to_thread(self._store.model)

    async def _usable_model(self) -> str:
        """Choose the model, and prepare the index for it if it is another one."""
        current = await asyncio.to_thread(self._store.model)
        model = await self._model.choose(current)
        if model != current:
            vectors = await self._model.embed(model, BACKGROUND, query=False)
            await asyncio.to_thread(self._store.use_model, model, _vectors().mean(vectors))
        return model

    async def _embed_batch(self, id: int, model: str, rows: list[tuple[bytes, str, str]]) -> None:
        texts = [f"{heading}\n\n{text}" if heading else text for _, heading, text in rows]
        try:
            numbers = await self._model.embed(model, texts, query=False)
            vectors = [_vectors().packed(one) for one in numbers]
        except TextRefused:
            if len(rows) > 1:
                for row in rows:
                    await self._embed_batch(id, model, [row])
                return
            # Found by its words only; without this mark it would be sent again and again.
            vectors = [b""]
        pairs = [(digest, vector) for (digest, *_), vector in zip(rows, vectors, strict=True)]
        await asyncio.to_thread(self._store.add_vectors, id, model, pairs)


def _vectors() -> ModuleType:
    return import_module("pipecatapp.tools.knowledge.vectors")


def _is_changed(file: Found, known: KnownFile | None) -> bool:
    return known is None or known.state != file.state


def _limited(found: list[Passage]) -> list[Passage]:
    if len(found) > MOST_PASSAGES:
        raise Unreadable(
            f"It has {len(found)} passages, and at most {MOST_PASSAGES} of a file are indexed."
            " Split it into parts."
        )
    return found
