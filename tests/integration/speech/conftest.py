"""Both speech services as processes of their own, with the real engines and voices."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from hearth.local.speech import MODELS
from hearth.models.catalogue import Catalogue
from hearth.models.pull import pull_speech
from hearth.models.store import ModelStore
from hearth.service.names import SPEECH_STT, SPEECH_TTS
from tests.integration.local.conftest import free_port_base, wait_for
from tests.integration.speech.golden import SENTENCES, word_errors
from tests.rules.tree import ROOT

__all__ = ["SENTENCES", "word_errors"]

STORE = ModelStore(ROOT / ".cache" / "models")
KEY = "sk-hearth-speech"


@dataclass(frozen=True)
class Speech:
    """Where the two services answer, and what they need."""

    stt: str
    tts: str
    key_file: Path
    models: Path
    processes: dict[str, "subprocess.Popen[bytes]"]

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {KEY}"}

    def spoken(self, text: str, kind: str = "wav") -> bytes:
        """The text as a sound file."""
        asked = {"input": text, "response_format": kind}
        answer = httpx2.post(
            f"{self.tts}/v1/audio/speech", json=asked, headers=self.headers, timeout=120
        )
        assert answer.status_code == 200, answer.text
        return answer.content

    def heard(self, sound: bytes) -> str:
        """The words of a sound file."""
        answer = httpx2.post(
            f"{self.stt}/v1/audio/transcriptions", files={"file": ("a.wav", sound)},
            data={"model": "any"}, headers=self.headers, timeout=120,
        )  # fmt: skip
        assert answer.status_code == 200, answer.text
        return str(answer.json()["text"])

    def kill(self, name: str) -> None:
        """End a service as a machine does that is out of memory; its engine ends with it."""
        engines = psutil.Process(self.processes[name].pid).children(recursive=True)
        self.processes[name].kill()
        self.processes[name].wait(60)
        wait_for(lambda: not any(map(is_at_work, engines)), f"{engines} are gone", 60)

    def start_again(self, name: str) -> None:
        """The same service at the same place, warm when this returns."""
        url, log = self.stt if name == SPEECH_STT else self.tts, self.key_file.parent / "again.log"
        port = urlsplit(url).port or 0
        self.processes[name] = start(name, port, self.key_file, self.models, log)
        wait_for(lambda: is_ready(url), f"{name} is ready: {log}", 240)


@pytest.fixture(scope="session")
def speech_models() -> Path:
    """The folder of the models, which are fetched once for all runs."""
    catalogue = Catalogue.load()
    for name in MODELS.values():
        pull_speech(catalogue.speech_model(name), STORE)
    return STORE.root


@pytest.fixture(scope="session")
def speech(speech_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Speech]:
    """Both services, warm."""
    folder = tmp_path_factory.mktemp("speech")
    key_file = folder / "key"
    key_file.write_text(KEY, encoding="ascii")
    base = free_port_base()
    ports = {SPEECH_STT: base + 91, SPEECH_TTS: base + 92}
    processes = {
        name: start(name, ports[name], key_file, speech_models, folder / f"{name}.log")
        for name in ports
    }
    urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    try:
        for name, url in urls.items():
            log = folder / f"{name}.log"
            wait_for(lambda url=url: is_ready(url), f"{name} is ready: {log}", 240)  # type: ignore[misc]
        yield Speech(urls[SPEECH_STT], urls[SPEECH_TTS], key_file, speech_models, processes)
    finally:
        for process in processes.values():
            end(process)


def start(
    name: str,
    port: int,
    key_file: Path,
    models: Path,
    log: Path,
    more: Mapping[str, str] | None = None,
) -> "subprocess.Popen[bytes]":
    """One service, as `hearth up` starts it, with more settings."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SPEECH_")}
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "speech"], cwd=ROOT, stderr=output,
            env=kept | {
                "SPEECH_DUTY": name.removeprefix("speech-"), "SPEECH_PORT": str(port),
                "SPEECH_KEY_FILES": json.dumps([str(key_file)]), "SPEECH_MODEL": MODELS[name],
                "SPEECH_MODEL_DIR": str(models), "PYTHONPATH": str(ROOT), **(more or {}),
            },
        )  # fmt: skip


def end(process: "subprocess.Popen[bytes]") -> None:
    """Stop it; what it started has ended, too."""
    children = psutil.Process(process.pid).children() if process.poll() is None else []
    process.terminate()
    process.wait(60)
    _, left = psutil.wait_procs(children, timeout=60)
    assert left == []


def is_at_work(process: psutil.Process) -> bool:
    """Whether it holds anything still: what has ended, and nobody has waited for, does not."""
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health").status_code == 200
    except httpx2.TransportError:
        return False
