"""Connect a command to the running instance, or to the same application in its own process.

Both speak HTTP, so a command sends the same requests and gets the same answers. Without an instance
the application listens on a unix socket that only this process can use, because an in-process
transport would hold a stream back until its end.
"""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote

import httpx2
from pydantic import AnyHttpUrl

from hearth.openai_api.errors import message_of
from hearth.openai_api.sse import SseReader
from hearth.service.logs import configure_logs
from hearth.service.settings import read_key
from hearth.service.state import StateDir, ensure_state_dir, is_locked, read_instance
from hearth.settings import Settings as HearthSettings

Json = dict[str, Any]

CLIENT: Final = "x-hearth-client"
"""The header with the name of the command, which the ledger records as the run's client."""
DOCUMENTS: Final = ("evolution/promoted", "layers", "projects", "prompts", "tools", "workflows")
"""Folders of a state directory with documents."""
CONNECT_AGAIN_SECONDS: Final = 0.5
CONNECT_AGAIN_TIMES: Final = 240
ANSWER_SECONDS: Final = 30.0
QUIET_SECONDS: Final = 45.0
"""The service sends something each 15 seconds while it streams."""


class RequestFailed(Exception):
    """The instance refused a request, or does not respond; the message states the reason.

    `status` is 503 and `code` None without a response.
    """

    def __init__(self, message: str, *, status: int = 503, code: str | None = None) -> None:
        self.status, self.code = status, code
        super().__init__(message)


class Client:
    """Sends requests to one application. `here`: it is served by this process, for one command."""

    def __init__(self, http: httpx2.AsyncClient, address: str, *, here: bool) -> None:
        self._http, self._address, self._here = http, address, here

    async def request(
        self, method: str, path: str, body: Json | None = None, **options: Any
    ) -> Any:
        """Send a request and return the JSON of the answer. Raises `RequestFailed`."""
        answer = await self._send(method, path, json=body, **options)
        return answer.json() if answer.content else {}

    async def text(self, method: str, path: str, **options: Any) -> str:
        """Send a request and return the text of the answer. Raises `RequestFailed`."""
        return (await self._send(method, path, **options)).text

    async def content(self, method: str, path: str, **options: Any) -> bytes:
        """Send a request and return the bytes of the answer. Raises `RequestFailed`."""
        return (await self._send(method, path, **options)).content

    async def events(self, run: str, *, after: int = 0) -> AsyncIterator[Json]:
        """Yield the events of a run, and its text as `delta`, until the run ends.

        Reconnects after the last event if the instance is restarted: a stream without the event
        `end` was interrupted. Raises `RequestFailed`.
        """
        failures = 0
        while True:
            try:
                async for event in self._stream(run, after):
                    if event["type"] == "end":
                        return
                    after = event.get("seq", after)
                    yield event
                failures = 0
            except httpx2.TransportError as error:
                failures += 1
                if failures > CONNECT_AGAIN_TIMES:
                    raise self._unreachable(error) from error
            if self._here:
                return
            await asyncio.sleep(CONNECT_AGAIN_SECONDS)

    async def _stream(self, run: str, after: int) -> AsyncIterator[Json]:
        reader = SseReader()
        timeout = httpx2.Timeout(QUIET_SECONDS, connect=5.0)
        address = f"/api/runs/{segment(run)}/events?after={after}"
        async with self._http.stream("GET", address, timeout=timeout) as answer:
            if not answer.is_success:
                await answer.aread()
                raise _refusal(answer)
            async for data in answer.aiter_bytes():
                for event in reader.feed(data):
                    yield {**json.loads(event.data), "type": event.event}

    async def _send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        try:
            answer = await self._http.request(method, path, **options)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error
        if not answer.is_success:
            raise _refusal(answer)
        return answer

    def _unreachable(self, error: Exception) -> RequestFailed:
        reason = str(error) or type(error).__name__
        return RequestFailed(f"The instance at {self._address} does not answer: {reason}.")


@asynccontextmanager
async def connect(state_dir: Path | None) -> AsyncIterator[Client]:
    """Connect to the instance that runs on a state directory, else serve it inside this process.

    Raises `RequestFailed` while an instance starts or stops. Without one also what opening the
    application raises: `SettingsError`, `LedgerBusy`, `LedgerFailed`, `LedgerTooNew`.
    """
    state = StateDir(state_dir or HearthSettings.load().state_dir)
    instance = read_instance(state)
    if instance is not None:
        key = read_key(instance.key_file)
        async with _http(instance.web, key, timeout=ANSWER_SECONDS) as http:
            yield Client(http, instance.web, here=False)
        return
    if is_locked(state.lock_file):
        raise RequestFailed(
            f"The instance on {state.root} is starting or stopping. Try again in a moment."
        )
    async with _serve_here(state) as client:
        yield client


@asynccontextmanager
async def connect_scripted(
    state_dir: Path | None, model: Callable[..., Any], roles: Json
) -> AsyncIterator[Client]:
    """Serve the application on a copy of the documents of a state directory, for tests.

    The ASGI application `model` answers at the address of the gateway. Runs, notes and secrets
    are not copied.
    """
    state = StateDir(state_dir or HearthSettings.load().state_dir)
    server = import_module("pipecatapp.command_server")
    with TemporaryDirectory(prefix="hearth-test-") as folder:
        copy = StateDir(Path(folder) / "state")
        ensure_state_dir(copy)
        copy.service_key_file.write_text("sk-scripted", encoding="utf-8")
        for name in DOCUMENTS:
            if (state.root / name).is_dir():
                shutil.copytree(state.root / name, copy.root / name, dirs_exist_ok=True)
        async with server.serve_scripted(model) as address:
            changes = {
                "gateway_url": AnyHttpUrl(f"{address}/v1"), "gateway_key_file": None,
                "services": {"moe-gateway": AnyHttpUrl(address)}, "consul_url": None,
                "model_roles": roles, "mcp_file": None,
            }  # fmt: skip
            async with _serve_here(copy, **changes) as client:
                yield client


@asynccontextmanager
async def _serve_here(state: StateDir, **changes: Any) -> AsyncIterator[Client]:
    ensure_state_dir(state)
    configure_logs("hearth", level="error")
    serve_command = import_module("pipecatapp.command_server").serve_command
    async with serve_command(state, **changes) as (socket, key):
        transport = httpx2.AsyncHTTPTransport(uds=str(socket))
        async with _http("http://localhost", key, timeout=None, transport=transport) as http:
            yield Client(http, str(socket), here=True)


def segment(name: str) -> str:
    """Escape a name that becomes one segment of a path."""
    return quote(name, safe="")


def _http(
    address: str,
    key: str,
    *,
    timeout: float | None,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=address,
        headers={"authorization": f"Bearer {key}", CLIENT: "cli"},
        timeout=httpx2.Timeout(timeout, connect=5.0),
        trust_env=False,
        transport=transport,
    )


def _refusal(answer: httpx2.Response) -> RequestFailed:
    try:
        body = answer.json()
    except ValueError:
        body = answer.text
    code = body.get("error", {}).get("code") if isinstance(body, dict) else None
    return RequestFailed(message_of(body), status=answer.status_code, code=code)
