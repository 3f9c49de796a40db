"""A real Home Assistant and a real gateway with the real agent, for the tests of this folder."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog

from hearth.openai_api.testing import ScriptedModel
from hearth.service.state import Instance, RunningService, StateDir
from pipecatapp.app import build_app
from pipecatapp.settings import Settings
from tests.binaries.home_assistant.running import HomeAssistant, running
from tests.conftest import served
from tests.integration.gateway.conftest import CHAT, KEY, Lab, chat, wait_until
from tests.ports import free_port

ENTITIES = """\
input_boolean:
  lamp: {name: Kitchen lamp backing}
  latch: {name: Front door backing}
template:
  - light:
      - name: Kitchen Lamp
        unique_id: kitchen_lamp
        state: "{{ is_state('input_boolean.lamp', 'on') }}"
        turn_on: {action: input_boolean.turn_on, target: {entity_id: input_boolean.lamp}}
        turn_off: {action: input_boolean.turn_off, target: {entity_id: input_boolean.lamp}}
  - lock:
      - name: Front Door
        unique_id: front_door
        state: "{{ is_state('input_boolean.latch', 'on') }}"
        lock: {action: input_boolean.turn_on, target: {entity_id: input_boolean.latch}}
        unlock: {action: input_boolean.turn_off, target: {entity_id: input_boolean.latch}}
"""
"""A lamp and a lock without hardware: their states are those of two switches of the program."""
LAMP = "light.kitchen_lamp"
LOCK = "lock.front_door"


@pytest.fixture(autouse=True)
def quiet_logs() -> None:
    """A service in this process must not write into the output of a command in this process."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeAssistant]:
    """A Home Assistant with a lamp and a lock, which assistants may see."""
    with running(tmp_path_factory.mktemp("home-assistant"), ENTITIES) as there:
        there.expose(LAMP, LOCK)
        yield there


@dataclass
class House:
    """A running instance: gateway, agent and a scripted model behind them."""

    model: ScriptedModel
    gateway: httpx2.Client
    agent: httpx2.Client
    state: StateDir

    def hearth(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command as its owner."""
        command = [sys.executable, "-m", "hearth", *words, "--state-dir", str(self.state.root)]
        environment = {**os.environ, "COLUMNS": "200"}
        return subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, timeout=200,
            check=False,
        )  # fmt: skip

    def shell(self, line: str, folder: Path, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a line of a shell in a folder, as its owner types it."""
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HEARTH_STATE_DIR": str(self.state.root),
            "COLUMNS": "200",
        }
        return subprocess.run(
            ["bash", "-c", line], input=stdin, cwd=folder, env=environment, capture_output=True,
            text=True, timeout=200, check=False,
        )  # fmt: skip

    def say(self, text: str, **more: Any) -> httpx2.Response:
        """Say something to the agent through the gateway."""
        return self.gateway.post(CHAT, json=chat(text, "agent", **more))

    def steps(self, run: str) -> list[tuple[str, str, str, str]]:
        """The steps of a run: path, tool, effect, status."""
        steps = self.run(run)["steps"]
        return [(one["path"], one["tool"], one["effect"], one["status"]) for one in steps]

    def questions(self, run: str) -> list[dict[str, Any]]:
        """The open questions of a run."""
        wait_until(lambda: self.run(run)["status"] == "waiting")
        steps = self.run(run)["steps"]
        asked = [one for one in steps if one["status"] == "waiting" and one["effect"] == "human"]
        return [{"path": one["path"], "question": one["facts"]["question"]} for one in asked]

    def run(self, run: str) -> dict[str, Any]:
        """A run, as its page shows it."""
        found: dict[str, Any] = self.agent.get(f"/api/runs/{run}").raise_for_status().json()
        return found

    def issued(self) -> list[dict[str, Any]]:
        """The issued keys."""
        found: list[dict[str, Any]] = self.gateway.get("/api/keys").json()["keys"]
        return found


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A gateway with an expert and the agent service, as `hearth up` starts them."""
    port, model = free_port(), ScriptedModel("small")
    address, state = f"http://127.0.0.1:{port}", StateDir(tmp_path / "state")
    state.root.mkdir()
    with ExitStack() as stack:
        lab = Lab(stack, state.root)
        gateway = lab.gateway(
            lab.expert(model, slots=4, tools="native"),
            lab.at(address, lists_models=True),
            key_store=state.key_store,
            ready=False,
        )
        url = str(gateway.base_url).rstrip("/")
        settings = Settings.model_validate(
            {
                "state_dir": state.root,
                "gateway_url": f"{url}/v1",
                "services": {"moe-gateway": url},
                "model_roles": {"default": "auto"},
                "drain_seconds": 0,
                "voice_sessions": 0,
            }
        )
        stack.enter_context(served(build_app(settings), port=port))
        wait_until(lambda: "agent" in gateway.get("/v1/models").text, 60)
        headers = {"authorization": f"Bearer {KEY}"}
        agent = stack.enter_context(
            httpx2.Client(base_url=address, headers=headers, timeout=120, trust_env=False)
        )
        now = datetime.now(UTC)
        service = RunningService(
            name="moe-gateway", pid=os.getpid(), port=gateway.base_url.port or 0, url=url, since=now
        )
        instance = Instance(
            pid=os.getpid(), started=now, web=address, api=f"{url}/v1",
            key_file=state.key_file, services=[service],
        )  # fmt: skip
        state.instance_file.write_text(instance.model_dump_json(), encoding="utf-8")
        yield House(model, gateway, agent, state)
