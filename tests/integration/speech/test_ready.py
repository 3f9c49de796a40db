"""When a speech service says that it is ready: with a program in the place of whisper.cpp's server
that loads for as long as the test wants."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from prometheus_client import CollectorRegistry
from ruamel.yaml import YAML

from hearth.models.catalogue import Catalogue
from hearth.models.progress import Silent
from hearth.models.pull import pull_speech
from hearth.models.store import ModelStore, sha256_of
from hearth.service.health import Health
from speech.app import build_app
from speech.settings import Settings
from tests.conftest import served
from tests.integration.local.conftest import wait_for
from tests.integration.speech.conftest import KEY

SERVER = """#!{python}
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200 if Path({folder!r}, "loaded").exists() else 503, b"{{}}")

    def do_POST(self):
        Path({folder!r}, "asked").touch()
        while not Path({folder!r}, "warm").exists():
            time.sleep(0.05)
        self.answer(200, b'{{"segments": []}}')

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

port = int(sys.argv[sys.argv.index("--port") + 1])
ThreadingHTTPServer(("127.0.0.1", port), Server).serve_forever()
"""


@pytest.fixture
def health(tmp_path: Path) -> Iterator[Callable[[], httpx2.Response]]:
    """Asks a service whose engine is that program."""
    program, weights = tmp_path / "whisper-server", tmp_path / "tiny.bin"
    program.write_text(SERVER.format(python=sys.executable, folder=str(tmp_path)))
    program.chmod(0o755)
    weights.write_bytes(b"weights")
    entry = {
        "about": "None.", "duty": "stt", "engine": "whisper.cpp", "language": "en",
        "license": "MIT", "ram_bytes": 1_000_000_000, "origin": "https://example.org",
        "files": {weights.name: {
            "path": str(weights), "size_bytes": 7, "sha256": sha256_of(weights, Silent()),
        }},
    }  # fmt: skip
    catalogue, store = tmp_path / "models.yaml", tmp_path / "models"
    with catalogue.open("w") as out:
        YAML().dump({"models": {}, "speech": {"tiny": entry}}, out)
    pull_speech(Catalogue.load(catalogue).speech_model("tiny"), ModelStore(store))
    (tmp_path / "key").write_text(KEY, encoding="ascii")
    settings = Settings.model_validate(
        {
            "duty": "stt", "port": 1, "key_files": [tmp_path / "key"], "model": "tiny",
            "model_dir": store, "catalogue": catalogue, "whisper_server": program,
        }
    )  # fmt: skip
    app = build_app(settings, Health("speech-stt", version="test"), CollectorRegistry())
    with served(app) as url:
        yield lambda: httpx2.get(f"{url}/health", timeout=60)


def test_service_is_ready_when_its_engine_has_heard_something(
    health: Callable[[], httpx2.Response], tmp_path: Path
) -> None:
    """Loading takes seconds, and the first sentence more: whoever speaks first would wait for
    both, and a balancer would send him there."""

    def ready() -> bool:
        answer = health()
        assert answer.status_code == 200 or answer.json()["reasons"] == ["start: starting"]
        return answer.status_code == 200

    loading = health()
    (tmp_path / "loaded").touch()
    wait_for(lambda: (tmp_path / "asked").exists(), "the engine is asked", 60)
    loaded = health()
    (tmp_path / "warm").touch()
    wait_for(ready, "the service is ready", 60)

    for before in (loading, loaded):
        assert before.status_code == 503
        assert before.json()["reasons"] == ["start: starting"]
