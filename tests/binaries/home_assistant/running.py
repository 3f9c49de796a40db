"""A real Home Assistant that runs for a test, with a user and a long-lived access token."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
from websockets.sync.client import connect

from tests.binaries.home_assistant.root import ENVIRONMENT, SETTINGS, inside, root
from tests.ports import free_port

SECONDS: Final = 180.0
"""Longest start; on an idle machine it takes about ten seconds."""
CONFIGURATION: Final = """\
homeassistant:
  name: Home
  unit_system: metric
  time_zone: Europe/Berlin
  latitude: 52.5
  longitude: 13.4
http:
  server_host: 127.0.0.1
  server_port: {port}
api:
config:
conversation:
onboarding:
"""
"""The integrations that every test has; others, such as MQTT, are added by their config flows."""
PASSWORD: Final = "a password for tests"
CONFIG_FOLDER: Final = "/tmp/config"


class NotStarted(Exception):
    """Home Assistant ended or did not answer; the message ends with its log."""


@dataclass(frozen=True)
class HomeAssistant:
    """A Home Assistant that runs on loopback, and its owner's long-lived access token."""

    url: str
    token: str

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON answer of its REST API; raises `HTTPStatusError` for a refusal."""
        answer = httpx2.request(
            method, f"{self.url}{path}", json=body, timeout=60, trust_env=False,
            headers={"Authorization": f"Bearer {self.token}"},
        )  # fmt: skip
        return answer.raise_for_status().json()

    def command(self, kind: str, **fields: Any) -> Any:
        """Return the result of a command of its WebSocket API."""
        return command(self.url, self.token, kind, **fields)

    def state(self, entity: str) -> str:
        """Return the state of an entity."""
        found: str = self.ask("GET", f"/api/states/{entity}")["state"]
        return found

    def expose(self, *entities: str, exposed: bool = True) -> None:
        """Show entities to assistants; lights, switches and covers are shown anyway."""
        self.command(
            "homeassistant/expose_entity",
            assistants=["conversation"], entity_ids=entities, should_expose=exposed,
        )  # fmt: skip

    def entries(self, domain: str) -> list[dict[str, Any]]:
        """Return the config entries of an integration."""
        path = f"/api/config/config_entries/entry?domain={domain}"
        found: list[dict[str, Any]] = self.ask("GET", path)
        return found


@contextmanager
def running(folder: Path, configuration: str = "") -> Iterator[HomeAssistant]:
    """Yield a Home Assistant that has been set up by a user; it runs until the end of the block.

    Args:
        folder: Its configuration directory, which must exist.
        configuration: YAML that is added to `CONFIGURATION`.

    Raises:
        NotStarted: It ended or did not answer in time.
    """
    port = free_port()
    text = CONFIGURATION.format(port=port) + configuration
    (folder / "configuration.yaml").write_text(text, encoding="utf-8")
    log = folder / "output.log"
    command = [
        *inside(root(), "--bind", str(folder), CONFIG_FOLDER),
        *(
            f"{ENVIRONMENT}/bin/python",
            "-m",
            "homeassistant",
            "--config",
            CONFIG_FOLDER,
            "--skip-pip",
        ),
    ]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
            env={**os.environ, **SETTINGS, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(process, lambda: bool(_get(f"{url}/api/onboarding")), log)
        home = HomeAssistant(url, _set_up(url))
        _wait(process, lambda: home.ask("GET", "/api/config")["state"] == "RUNNING", log)
        yield home
    finally:
        process.kill()  # bubblewrap ends everything inside with it.
        process.wait(60)


def command(url: str, token: str, kind: str, **fields: Any) -> Any:
    """Return the result of a command of a Home Assistant's WebSocket API."""
    address = f"{url.replace('http', 'ws', 1)}/api/websocket"
    with connect(address, proxy=None, max_size=2**24) as socket:
        socket.recv(timeout=60)
        socket.send(json.dumps({"type": "auth", "access_token": token}))
        greeting = json.loads(socket.recv(timeout=60))
        assert greeting["type"] == "auth_ok", greeting
        socket.send(json.dumps({"id": 1, "type": kind, **fields}))
        answer = json.loads(socket.recv(timeout=60))
    assert answer["success"], answer
    return answer["result"]


def _get(address: str) -> object:
    """Return the JSON answer of an address; None before anything answers there."""
    try:
        return httpx2.get(address, timeout=60, trust_env=False).raise_for_status().json()
    except httpx2.TransportError:
        return None


def _wait(process: "subprocess.Popen[bytes]", ready: Callable[[], bool], log: Path) -> None:
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends and process.poll() is None:
        if ready():
            return
        time.sleep(0.1)
    raise NotStarted(f"Home Assistant did not start:\n{log.read_text(errors='replace')[-3000:]}")


def _set_up(url: str) -> str:
    """Create the owner as its first page does; return a long-lived access token."""
    client = f"{url}/"
    with httpx2.Client(base_url=url, timeout=60, trust_env=False) as http:
        owner = {"name": "Ada", "username": "ada", "password": PASSWORD, "language": "en"}
        answer = http.post("/api/onboarding/users", json={**owner, "client_id": client})
        code = answer.raise_for_status().json()["auth_code"]
        grant = {"grant_type": "authorization_code", "code": code, "client_id": client}
        token: str = http.post("/auth/token", data=grant).raise_for_status().json()["access_token"]
    # The step `core_config` would set up integrations that ask the internet.
    long_lived: str = command(
        url, token, "auth/long_lived_access_token", client_name="Hearth's tests", lifespan=365
    )
    return long_lived
