"""The running instance, over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Final, Self

import httpx2

from hearth.openai_api.errors import message_of
from hearth.openai_api.sse import SseReader
from pipecatapp.cli.failure import FAILED, INVALID, CommandFailed
from pipecatapp.cli.start import Start
from pipecatapp.runs import Document, FlatForm, Fork

Json = dict[str, Any]

CONNECT_AGAIN_SECONDS: Final = 0.5
CONNECT_AGAIN_TIMES: Final = 240
QUIET_SECONDS: Final = 45.0
"""The service says something each 15 seconds."""


class RemoteDesk:
    """Speaks to the agent service at `address`, such as `http://127.0.0.1:8000`."""

    def __init__(self, address: str, key: str) -> None:
        self._http = httpx2.AsyncClient(
            base_url=address,
            headers={"authorization": f"Bearer {key}"},
            timeout=httpx2.Timeout(30.0, connect=5.0),
            trust_env=False,
        )
        self._address = address

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def plan(self, document: Document) -> Json:
        return await self.ask("POST", "/api/plan", document.model_dump(exclude_none=True))

    async def foresee(self, document: Document, look: Json) -> Json:
        body = document.model_dump(exclude_none=True) | look
        return await self.ask("POST", "/api/plan/cache", body)

    async def explain(self, document: Document, path: str) -> list[Json]:
        body = document.model_dump(exclude_none=True) | {"path": path}
        opinions: list[Json] = (await self.ask("POST", "/api/plan/explain", body))["opinions"]
        return opinions

    async def flat(self, document: Document, form: FlatForm) -> str:
        body = document.model_dump(exclude_none=True) | {"format": form}
        return str((await self.ask("POST", "/api/plan/flat", body))["document"])

    async def start(self, start: Start) -> str:
        return str((await self.ask("POST", "/api/runs", start.body()))["run"])

    async def follow(self, run: str, *, after: int = 0) -> AsyncIterator[Json]:
        """Connects again, after the last event that came, when the service is started anew.

        A stream that ends without `end` says that the run will go on.
        """
        failures = 0
        while True:
            try:
                async for event in self._events(run, after):
                    if event["type"] == "end":
                        return
                    after = event.get("seq", after)
                    yield event
                failures = 0
            except httpx2.TransportError as error:
                failures += 1
                if failures > CONNECT_AGAIN_TIMES:
                    raise self._unreachable(error) from error
            await asyncio.sleep(CONNECT_AGAIN_SECONDS)

    async def show(self, run: str) -> Json:
        return await self.ask("GET", f"/api/runs/{run}")

    async def page(self, limit: int, **wanted: str) -> Json:
        return await self.ask("GET", "/api/runs", params={"limit": limit, **wanted})

    async def cancel(self, run: str) -> Json:
        return await self.ask("POST", f"/api/runs/{run}/cancel")

    async def answer(self, run: str, path: str, value: Any) -> Json:
        return await self.ask("POST", f"/api/runs/{run}/answer", {"path": path, "value": value})

    async def note(self, run: str, text: str) -> None:
        await self.ask("POST", f"/api/runs/{run}/notes", {"text": text, "by": "cli"})

    async def fork(self, run: str, fork: Fork) -> str:
        body = fork.model_dump(exclude_none=True)
        return str((await self.ask("POST", f"/api/runs/{run}/fork", body))["run"])

    async def _events(self, run: str, after: int) -> AsyncIterator[Json]:
        reader = SseReader()
        timeout = httpx2.Timeout(QUIET_SECONDS, connect=5.0)
        address = f"/api/runs/{run}/events?after={after}"
        async with self._http.stream("GET", address, timeout=timeout) as answer:
            if not answer.is_success:
                await answer.aread()
                raise _refusal(answer)
            async for data in answer.aiter_bytes():
                for event in reader.feed(data):
                    yield {**json.loads(event.data), "type": event.event}

    async def prune(self, days: float, *, keep: int, look: bool) -> list[str]:
        body = {"days": days, "keep": keep, "look": look}
        return list((await self.ask("POST", "/api/runs/prune", body))["runs"])

    async def export(self, run: str) -> str:
        return (await self._asked("GET", f"/api/runs/{run}/export")).text

    async def pin(self, run: str, path: str) -> str:
        return (await self._asked("GET", f"/api/runs/{run}/pin", params={"path": path})).text

    async def compare(self, run: str, other: str) -> Json:
        return await self.ask("GET", f"/api/runs/{run}/compare", params={"with": other})

    async def changes(self, run: str, path: str | None) -> str:
        params = {} if path is None else {"path": path}
        return (await self._asked("GET", f"/api/runs/{run}/changes", params=params)).text

    async def take_in(self, lines: str) -> list[str]:
        answer = await self._asked("POST", "/api/runs/import", content=lines.encode())
        return list(answer.json()["runs"])

    async def ask(self, method: str, path: str, body: Json | None = None, **more: Any) -> Json:
        """Any other question to the API; raises `CommandFailed` with what it says."""
        answer = await self._asked(method, path, json=body, **more)
        told: Json = answer.json() if answer.content else {}
        return told

    async def _asked(self, method: str, path: str, **body: Any) -> httpx2.Response:
        try:
            answer = await self._http.request(method, path, **body)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error
        if not answer.is_success:
            raise _refusal(answer)
        return answer

    def _unreachable(self, error: Exception) -> CommandFailed:
        reason = str(error) or type(error).__name__
        return CommandFailed(f"The instance at {self._address} does not answer: {reason}.")


def _refusal(answer: httpx2.Response) -> CommandFailed:
    """404 and 422 say that a document, a name or an input is wrong; the rest that it failed."""
    try:
        body = answer.json()
    except ValueError:
        body = answer.text
    wrong = isinstance(body, dict) and body.get("error", {}).get("code") in WRONG
    return CommandFailed(message_of(body), code=INVALID if wrong else FAILED)


WRONG: Final = (
    "workflow_not_found",
    "invalid_document",
    "invalid_inputs",
    "wrong_answer",
    "not_imported",
    "wrong_timing",
)
