"""Every engine that hears, held to one contract, as a service of its own."""

import io
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import numpy as np
import psutil
import pytest
import soundfile
from ruamel.yaml import YAML

from hearth.models.catalogue import Catalogue
from hearth.models.progress import Silent
from hearth.models.pull import pull_speech
from hearth.models.store import ModelStore, sha256_of
from hearth.service.names import SPEECH_STT
from speech.audio import HEARING_RATE, Samples
from tests.integration.expert import build_engines
from tests.integration.local.conftest import free_port_base, wait_for
from tests.integration.speech import ggml
from tests.integration.speech.conftest import KEY, STORE, end, is_ready, start
from tests.integration.speech.golden import word_errors, words
from tests.integration.speech.voice import golden_sounds

EXTENDED_INPUTS = ["speech/**", "requirements/speech.lock", "ansible/roles/whisper_cpp/*"]

pytestmark = [pytest.mark.extended, pytest.mark.timeout(300)]

GATES = {"moonshine": 0.04, "faster-whisper": 0.04, "whisper.cpp": 0.05}
"""The share of words that an engine may hear wrong; decision 0135 has what they do."""

MOST_BYTES = 50_000_000
"""Less than any engine takes: each is replaced as often as that is allowed."""


@dataclass
class Ears:
    """A service that hears, with one engine."""

    engine: str
    url: str
    folder: Path
    models: Path
    more: dict[str, str]
    process: "subprocess.Popen[bytes]" = field(init=False)

    def begin(self, **more: str) -> None:
        """Start the service, with more settings; it is warm when this returns."""
        key_file, log = self.folder / "key", self.folder / "log"
        key_file.write_text(KEY, encoding="ascii")
        port = urlsplit(self.url).port or 0
        self.process = start(SPEECH_STT, port, key_file, self.models, log, self.more | more)
        wait_for(lambda: is_ready(self.url), f"{self.engine} is ready: {log}", 240)

    def ask(self, sound: Samples, **fields: str) -> httpx2.Response:
        return httpx2.post(
            f"{self.url}/v1/audio/transcriptions", files={"file": ("a.wav", wav(sound))},
            data={"model": "any", **fields}, headers={"authorization": f"Bearer {KEY}"},
            timeout=120,
        )  # fmt: skip

    def hear(self, sound: Samples, **fields: str) -> dict[str, Any]:
        answer = self.ask(sound, **fields)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def engine_process(self) -> psutil.Process:
        """The newest, where one takes over from another."""
        return max(psutil.Process(self.process.pid).children(), key=lambda p: p.create_time())

    def figure(self, name: str) -> float:
        told = httpx2.get(f"{self.url}/metrics", timeout=60).text
        [line] = [line for line in told.splitlines() if line.startswith(f"{name} ")]
        return float(line.split()[1])


def wav(sound: Samples) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, sound, HEARING_RATE, format="WAV")
    return file.getvalue()


@pytest.fixture(scope="module")
def sounds(speech_models: Path) -> list[tuple[str, str, Samples]]:
    """Every sentence once: the first plain, the second quick, the third noisy, and so on."""
    voice = speech_models / "en-us-joe" / "en_US-joe-medium.onnx"
    return list(golden_sounds(voice, once=True))


@pytest.fixture(scope="module", params=[
    "moonshine", "faster-whisper", pytest.param("whisper.cpp", marks=pytest.mark.engines),
])  # fmt: skip
def ears(
    request: pytest.FixtureRequest, speech_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ears]:
    """A warm service for each engine, with real weights."""
    folder = tmp_path_factory.mktemp(request.param)
    url = f"http://127.0.0.1:{free_port_base() + 91}"
    ears = Ears(request.param, url, folder, speech_models, settings(request.param, folder))
    try:
        ears.begin()
        yield ears
    finally:
        end(ears.process)


def settings(engine: str, folder: Path) -> dict[str, str]:
    """What the service is told beside the usual; the models are fetched or made."""
    if engine == "moonshine":
        return {}
    model = Catalogue.load().speech_model("whisper-tiny-en")
    weights = pull_speech(model, STORE)
    if engine == "faster-whisper":
        return {"SPEECH_MODEL": model.name}
    if not build_engines.built():
        pytest.skip("whisper.cpp is not compiled here: make test-engines")
    file, catalogue, store = folder / "tiny.bin", folder / "models.yaml", folder / "models"
    ggml.convert(weights, file)
    entry = {
        "about": "The same weights.", "duty": "stt", "engine": "whisper.cpp", "language": "en",
        "license": "MIT", "ram_bytes": model.ram_bytes, "origin": model.origin,
        "files": {file.name: {
            "path": str(file), "size_bytes": file.stat().st_size,
            "sha256": sha256_of(file, Silent()),
        }},
    }  # fmt: skip
    with catalogue.open("w") as out:
        YAML().dump({"models": {}, "speech": {"tiny-ggml": entry}}, out)
    pull_speech(Catalogue.load(catalogue).speech_model("tiny-ggml"), ModelStore(store))
    return {
        "SPEECH_MODEL": "tiny-ggml", "SPEECH_CATALOGUE": str(catalogue),
        "SPEECH_MODEL_DIR": str(store), "SPEECH_WHISPER_SERVER": str(build_engines.WHISPER_SERVER),
    }  # fmt: skip


def test_golden_sentences_are_heard(ears: Ears, sounds: list[tuple[str, str, Samples]]) -> None:
    """An engine that hears worse than it did is a change that somebody has to defend."""
    wrong, said = 0.0, 0
    heard = []
    for manner, text, sound in sounds:
        found = ears.hear(sound)["text"]
        heard.append((manner, text, found))
        wrong += word_errors(text, found) * len(words(text))
        said += len(words(text))

    assert wrong / said <= GATES[ears.engine], [one for one in heard if one[1] != one[2]]


def test_parts_have_times_and_a_stream_has_the_same_words(
    ears: Ears, sounds: list[tuple[str, str, Samples]]
) -> None:
    """Subtitles need the times; a live transcript must not differ from the file's."""
    pause = np.zeros(HEARING_RATE, np.float32)
    sound = np.concatenate([sounds[0][2], pause, sounds[3][2]])
    whole = ears.hear(sound, response_format="verbose_json")
    answer = ears.ask(sound, stream="true")
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
    deltas = [e["delta"] for e in events if e["type"] == "transcript.text.delta"]
    times = [t for part in whole["segments"] for t in (part["start"], part["end"])]

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert len(whole["segments"]) >= 1
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] <= whole["duration"] + 0.01
    assert whole["language"] == "en"
    assert "".join(deltas) == events[-1]["text"] == whole["text"]
    assert events[-1]["type"] == "transcript.text.done"


def test_silence_and_noise_are_no_words(ears: Ears) -> None:
    """Models that were trained on subtitles thank for watching; nobody was there."""
    noise = np.random.default_rng(3).normal(0, 0.003, 3 * HEARING_RATE).astype(np.float32)

    assert ears.hear(np.zeros(2 * HEARING_RATE, np.float32))["text"] == ""
    assert ears.hear(noise)["text"] == ""


def test_language_that_the_model_does_not_know_is_refused_with_the_remedy(ears: Ears) -> None:
    """German that is written down as English nonsense helps nobody."""
    answer = ears.ask(np.zeros(HEARING_RATE, np.float32), language="de-DE")

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "language"
    assert "supports only 'en'" in answer.json()["error"]["message"]


def test_engine_that_was_killed_hears_again(
    ears: Ears, sounds: list[tuple[str, str, Samples]]
) -> None:
    """A crash is one failed request at most, not a deaf house."""
    process = ears.engine_process()
    assert process.environ()["MALLOC_ARENA_MAX"] == "2"  # Else its memory grows by the thread.
    process.kill()
    process.wait(60)
    wait_for(lambda: ears.ask(sounds[0][2]).status_code == 200, "it hears again", 120)

    assert word_errors(sounds[0][1], ears.hear(sounds[0][2])["text"]) < 0.5


def test_engine_ends_with_a_service_that_is_killed(ears: Ears) -> None:
    """Hundreds of megabytes that nobody asks are a leak."""
    engine = ears.engine_process()
    os.kill(ears.process.pid, signal.SIGKILL)
    ears.process.wait(60)
    _, left = psutil.wait_procs([engine], timeout=60)

    assert left == []


def test_engine_that_has_grown_is_replaced_and_nobody_waits(ears: Ears) -> None:
    """Memory that libraries keep comes back this way, without a request that fails. The last test:
    its service is one that finds every engine too large."""
    end(ears.process)
    ears.begin(SPEECH_ENGINE_BYTES=str(MOST_BYTES))
    sound = np.zeros(HEARING_RATE // 2, np.float32)
    before = ears.figure('speech_engines_restarted_total{why="memory"}')

    def replaced() -> bool:
        assert ears.hear(sound)["text"] == ""
        return ears.figure('speech_engines_restarted_total{why="memory"}') > before

    wait_for(replaced, "the engine is replaced", 120)
    service = psutil.Process(ears.process.pid)
    wait_for(lambda: len(service.children()) == 1, "the former one has ended", 60)
