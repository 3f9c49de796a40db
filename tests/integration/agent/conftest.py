"""An agent service on a real socket, with a scripted model behind it as its gateway."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from hearth.openai_api.sse import SseEvent, SseReader
from hearth.openai_api.testing import ScriptedModel
from pipecatapp.app import build_app
from pipecatapp.settings import Settings
from tests.conftest import served

Serve = Callable[[ASGIApp], str]
Json = dict[str, Any]


class ScriptedGateway(ScriptedModel):
    """A scripted model that also tells its experts, as the gateway does."""

    def __init__(self, *, tools: str = "native") -> None:
        super().__init__("scripted")
        self.expert = {"name": "scripted", "model": "scripted", "healthy": True, "tools": tools}
        self.experts: list[dict[str, Any]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/api/experts":
            await JSONResponse({"experts": self.experts or [self.expert]})(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


@dataclass
class House:
    """One instance: its state directory, its model, its agent service."""

    state: Path
    model: ScriptedGateway
    gateway: str
    address: str = ""
    key: str = "sk-hearth-people"
    more: Json = field(default_factory=dict)

    def settings(self) -> Settings:
        return Settings.model_validate(
            {
                "state_dir": self.state,
                "gateway_url": f"{self.gateway}/v1",
                "services": {"moe-gateway": self.gateway},
                "drain_seconds": 1,
                **self.more,
            }
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """The agent service in this process."""
        with served(build_app(self.settings())) as self.address:
            yield

    def environment(self) -> dict[str, str]:
        """What `hearth up` gives the service; port 0 is to be replaced."""
        return {
            "PIPECATAPP_STATE_DIR": str(self.state),
            "PIPECATAPP_GATEWAY_URL": f"{self.gateway}/v1",
            "PIPECATAPP_DRAIN_SECONDS": "1",
        }

    def client(self, *, key: str | None = None) -> httpx2.Client:
        """Calls the agent service; with the key of people unless another is named."""
        headers = {"authorization": f"Bearer {self.key if key is None else key}"}
        return httpx2.Client(base_url=self.address, headers=headers, timeout=120, trust_env=False)

    def ask(self, text: str, *, model: str = "agent", **more: Any) -> httpx2.Response:
        """One chat completion."""
        body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
        with self.client() as client:
            return client.post("/v1/chat/completions", json=body)


def follow(answer: httpx2.Response, *, until: str = "", path: str = "") -> list[SseEvent]:
    """The events of a stream, up to the first of that type (at that path, if given)."""
    reader, found = SseReader(), list[SseEvent]()
    for data in answer.iter_bytes():
        for event in reader.feed(data):
            found.append(event)
            if event.event == until and (not path or json.loads(event.data)["path"] == path):
                return found
    return found


@pytest.fixture(autouse=True)
def quiet_logs() -> None:
    """A service in this process must not write into the output of a command in this process."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


@pytest.fixture
def empty_house(tmp_path: Path, serve: Serve) -> House:
    """A state directory with keys and a gateway; the agent service is not started."""
    model = ScriptedGateway()
    house = House(tmp_path / "state", model, serve(model.app))
    house.state.mkdir()
    (house.state / "key").write_text(house.key, encoding="utf-8")
    (house.state / "service_key").write_text("sk-hearth-services", encoding="utf-8")
    return house


@pytest.fixture
def house(empty_house: House) -> Iterator[House]:
    """The same with the agent service in this process."""
    with empty_house.running():
        yield empty_house
