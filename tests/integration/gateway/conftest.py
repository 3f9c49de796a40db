"""A gateway in front of scripted models, on real sockets."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.types import ASGIApp

from hearth.openai_api.testing import ScriptedModel
from hearth.service.health import Health
from moe_gateway.app import build_app
from moe_gateway.http.server import CorkedProtocol
from moe_gateway.settings import Settings
from tests.conftest import served

KEY = "sk-hearth-test-of-people"
SERVICE_KEY = "sk-hearth-test-of-services"
CHAT = "/v1/chat/completions"

Json = dict[str, Any]


def chat(text: str, model: str = "small", **fields: Any) -> Json:
    """The body of a chat request with one message."""
    return {"model": model, "messages": [{"role": "user", "content": text}], **fields}


class Lab:
    """Starts scripted models and gateways, and stops them after the test."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        for name, key in (("key", KEY), ("service_key", SERVICE_KEY)):
            (folder / name).write_text(f"{key}\n")

    def serve(self, app: ASGIApp) -> str:
        return self._stack.enter_context(served(app))

    def expert(self, model: ScriptedModel, name: str = "small", **fields: Any) -> Json:
        """The settings of an instance, with the model served behind it."""
        return self.at(self.serve(model.app), expert=name, **fields)

    def agent(self, model: ScriptedModel) -> Json:
        """An instance that tells its models itself."""
        return self.at(self.serve(model.app), lists_models=True)

    def at(self, url: str, **fields: Any) -> Json:
        return {"url": url, "key_file": self._folder / "service_key", **fields}

    def settings(self, *instances: Json, **fields: Any) -> Settings:
        """Settings that check health often, so that tests need not wait, and wait long for the
        answer: a model that is slow on a busy machine is not ill."""
        patient: Json = {"check_interval": 0.05, "models_interval": 0.05, "check_timeout": 60}
        files = [self._folder / "key", self._folder / "service_key"]
        return Settings.model_validate(
            {"key_files": files, "instances": instances, **patient, **fields}
        )

    def gateway(
        self, *instances: Json, ready: bool = True, taken: int = 0, **fields: Any
    ) -> httpx2.Client:
        """A client of a gateway with these instances; when `ready`, they have all been found. Of
        each, so many slots are `taken` for as long as the gateway runs."""
        health = Health("moe-gateway", version="test")
        app = build_app(self.settings(*instances, **fields), health)
        for instance in app.fast.authorizer.instances:
            instance.in_flight = taken
        url = self._stack.enter_context(served(app, CorkedProtocol))
        client = self._stack.enter_context(caller(url))
        if ready:
            wait_until(lambda: all(one["healthy"] for one in instances_of(client)))
        return client


def caller(url: str, key: str = KEY) -> httpx2.Client:
    headers = {"authorization": f"Bearer {key}"}
    return httpx2.Client(base_url=url, headers=headers, timeout=60, trust_env=False)


def instances_of(client: httpx2.Client) -> list[Json]:
    """What the gateway says of every instance."""
    found = client.get("/api/experts").raise_for_status().json()
    experts: list[Json] = [one for expert in found["experts"] for one in expert["instances"]]
    return [*experts, *found["others"]]


def gauge(gateway: httpx2.Client, name: str) -> float:
    """The sum of a metric over its labels; 0 when it is not there."""
    lines = gateway.get("/metrics").text.splitlines()
    return sum(
        float(line.split()[-1]) for line in lines if line.startswith((f"{name}{{", f"{name} "))
    )


def wait_until(happened: Callable[[], bool], timeout: float = 60) -> None:
    """Look again and again at what can only be asked for."""
    ends = time.monotonic() + timeout
    while not happened():
        if time.monotonic() > ends:
            raise TimeoutError("It did not happen.")
        time.sleep(0.01)


def events(answer: httpx2.Response) -> list[Any]:
    """The data of a streamed answer's events; JSON is decoded, comments are left out."""
    lines = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def text_of(found: list[Any]) -> str:
    """The words that the chunks among these events add up to."""
    choices = [
        event["choices"] for event in found if isinstance(event, dict) and "choices" in event
    ]
    return "".join(choice["delta"].get("content") or "" for one in choices for choice in one)


def raw(client: httpx2.Client, body: Json, path: str = CHAT, key: str = KEY) -> bytes:
    """The bytes of a request."""
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {client.base_url.netloc.decode()}\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def send_raw(client: httpx2.Client, body: Json, path: str = CHAT, key: str = KEY) -> socket.socket:
    """Send a request and return its connection, so that a test can hang up at any moment."""
    where = client.base_url
    connection = socket.create_connection((where.host, where.port or 0), timeout=60)
    connection.sendall(raw(client, body, path, key))
    return connection


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with ExitStack() as stack:
        yield Lab(stack, tmp_path)
