"""What hears by default against the other engines: seconds of work for a second of speech."""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry
from ruamel.yaml import YAML

from hearth.local.speech import MODELS
from hearth.models.catalogue import Catalogue
from hearth.models.pull import pull_speech
from hearth.models.store import ModelStore
from hearth.service.names import SPEECH_STT, SPEECH_TTS
from speech.audio import HEARING_RATE, Samples
from speech.engines.hearing import Hearing
from speech.engines.piped import PipedHearing
from speech.engines.whisper_server import WhisperServer
from speech.metrics import SpeechMetrics
from tests.benchmarks.entry import Benchmark, Pair
from tests.benchmarks.gateway_tokens import ROOT
from tests.integration.expert import build_engines
from tests.integration.speech import ggml
from tests.integration.speech.golden import word_errors, words
from tests.integration.speech.voice import golden_sounds

STORE = ModelStore(ROOT / ".cache" / "models")
THREADS = len(os.sched_getaffinity(0))
ENDLESS = 1 << 40
"""Bytes: no engine is replaced while it is measured."""

NAMES = ("moonshine", "faster-whisper", "whisper.cpp")
errors: dict[str, tuple[float, int]] = {}
"""Engine -> its wrong words, and all words, of the last measurement."""


def measure() -> list[Pair]:
    """A pair a sentence: the sentence in all manners, heard by one engine after the other."""
    return asyncio.run(_measure())


async def _measure() -> list[Pair]:
    catalogue = Catalogue.load()
    voice = pull_speech(catalogue.speech_model(MODELS[SPEECH_TTS]), STORE)
    sounds = defaultdict[str, list[Samples]](list)
    for _, text, sound in golden_sounds(next(voice.glob("*.onnx"))):
        sounds[text].append(sound)
    pairs = []
    errors.clear()
    with tempfile.TemporaryDirectory() as folder:
        async with engines(catalogue, Path(folder)) as found:
            for text, several in sounds.items():
                told = {name: await hear(name, found[name], text, several) for name in NAMES}
                sys.stderr.write(f"{told}\n")
                pairs.append(
                    Pair(
                        told["moonshine"], told["faster-whisper"],
                        others={"whisper.cpp": told["whisper.cpp"]},
                        also={f"words wrong, {name}": _share(name) for name in NAMES},
                    )
                )  # fmt: skip
    return [Pair(p.ours, p.peer, p.others, pairs[-1].also) for p in pairs]


async def hear(name: str, engine: Hearing, text: str, sounds: list[Samples]) -> float:
    """Seconds of work for a second of speech."""
    worked = 0.0
    for sound in sounds:
        began = time.perf_counter()
        heard = " ".join([part.text async for part in engine.hear(sound, language=None)])
        worked += time.perf_counter() - began
        wrong, said = errors.get(name, (0.0, 0))
        count = len(words(text))
        errors[name] = (wrong + word_errors(text, heard) * count, said + count)
    return worked / (sum(map(len, sounds)) / HEARING_RATE)


def _share(name: str) -> float:
    wrong, said = errors[name]
    return wrong / said


@contextlib.asynccontextmanager
async def engines(catalogue: Catalogue, folder: Path) -> AsyncIterator[Mapping[str, Hearing]]:
    """All three, warm; Whisper's two with the same weights."""
    if not build_engines.built():
        raise RuntimeError("whisper.cpp is not compiled here: make test-engines")
    small = pull_speech(catalogue.speech_model(MODELS[SPEECH_STT]), STORE)
    weights = pull_speech(catalogue.speech_model("whisper-tiny-en"), STORE)
    ggml.convert(weights, folder / "tiny.bin")
    metrics = SpeechMetrics(CollectorRegistry(), "stt")

    def piped(engine: str, files: Path) -> PipedHearing:
        return PipedHearing(
            engine, "en", engine, files, threads=THREADS, most_bytes=ENDLESS, metrics=metrics
        )

    server = WhisperServer(
        "whisper.cpp", "en", folder / "tiny.bin", binary=build_engines.WHISPER_SERVER,
        threads=THREADS, most_bytes=ENDLESS, metrics=metrics,
    )  # fmt: skip
    found: dict[str, Hearing] = {
        "moonshine": piped("moonshine", small),
        "faster-whisper": piped("faster-whisper", weights),
        "whisper.cpp": server,
    }
    try:
        for engine in found.values():
            await engine.open()
        yield found
    finally:
        for engine in found.values():
            await engine.close()


def whisper_version() -> str:
    """Of the compiled tree, as the pins have it."""
    pins = YAML(typ="safe").load((ROOT / "group_vars" / "all" / "sources.yaml").read_text())
    return str(pins["sources"]["whisper.cpp"]["version"])


BENCHMARK = Benchmark(
    id="voice.hearing",
    about=(
        "Twelve sentences, each as the voice speaks, a quarter faster, and with noise: seconds of"
        " work for a second of speech, by Moonshine tiny, which hears when nobody chose, against"
        " faster-whisper with tiny.en in 8 bits, and whisper.cpp with the same weights. Beside it,"
        " the share of words that each hears wrong."
    ),
    unit="s",
    peer="faster-whisper",
    peer_version=lambda: version("faster-whisper"),
    goal=1,
    measure=measure,
    lower_is_better=True,
    other_versions=lambda: {"whisper.cpp": whisper_version()},
)
