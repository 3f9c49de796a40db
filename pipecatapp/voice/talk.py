"""One voice conversation between a client and the worker; this process calls the agent."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Protocol

import structlog
from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from pipecatapp.application.engine import Delta, Event, Listener, RunResult
from pipecatapp.voice.messages import FROM_PERSON, Choose, Clear, Hello, Json, Said, Setup, Typed
from pipecatapp.voice.metrics import VoiceMetrics

log = structlog.get_logger()

REASONS: Final = {
    "model": "The model does not respond.",
    "hearing": "Speech-to-text does not respond.",
    "speaking": "Text-to-speech does not respond.",
}


class CallerLeft(Exception):
    """The person closed the page."""


class Person(Protocol):
    """The browser's side of the conversation."""

    async def receive(self) -> str | bytes:
        """The next message. Raises `CallerLeft`."""

    async def send(self, message: str | bytes) -> None:
        """Raises `CallerLeft`."""


class House(Protocol):
    """The interface that starts and stops runs."""

    async def start(self, text: str, conversation: str, listener: Listener, model: str) -> str:
        """Start a run for this model and return its id. Raises `RunFailed`."""

    async def wait(self, run: str) -> RunResult:
        """How it ended."""

    async def cancel(self, run: str) -> None:
        """Stop it."""

    async def timed(self, run: str, stages: dict[str, float]) -> None:
        """Store the latency of each stage of a turn with its run."""


class Talk:
    """Passes sound and words on, and runs the agent once for each turn."""

    def __init__(
        self, person: Person, worker: ClientConnection, house: House, metrics: VoiceMetrics
    ) -> None:
        self._person, self._worker, self._house, self._metrics = person, worker, house, metrics
        self._conversation, self._model = "", ""
        self._run: str | None = None
        self._answering: dict[int, asyncio.Task[None]] = {}
        self._handlers: dict[str, Callable[[Json], Awaitable[None]]] = {
            "ask": self._ask,
            "withdraw": self._withdraw,
            "turn": self._turn,
            "trouble": self._trouble,
            "interrupted": self._interrupted,
            "judged": self._judged,
            "lag": self._lag,
            "tasks": self._tasks,
            "barge_in": self._barge_in,
            "idle": self._idle,
        }

    async def hold(
        self, hello: Hello, setup: Setup, ended: Callable[[], None] = lambda: None
    ) -> None:
        """Talk until the person leaves or the worker ends, which is reported with `ended` before
        anything is cleaned up. Raises `CallerLeft`.
        """
        self._conversation = hello.conversation or new_conversation()
        self._model = hello.model
        await self._worker.send(setup.model_dump_json())
        sides = [asyncio.create_task(self._listen()), asyncio.create_task(self._relay())]
        try:
            await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended()
            tasks = [*sides, *self._answering.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for side in sides:
            if side.done() and not side.cancelled():
                # Of a worker that died both sides learn, in any order; it is one end.
                with suppress(ConnectionClosed):
                    side.result()

    async def _listen(self) -> None:
        """Forward messages of the client."""
        while True:
            message = await self._person.receive()
            if isinstance(message, bytes):
                await self._worker.send(message)
                continue
            try:
                said = FROM_PERSON.validate_json(message)
            except ValidationError as error:
                await self._tell(type="refused", reason=str(error.errors()[0]["msg"]))
            else:
                await self._take(said)

    async def _take(self, said: Said) -> None:
        """One message of the person."""
        match said:
            case Clear():
                self._conversation = new_conversation()
                await self._worker.send(json.dumps({"type": "quiet"}))
                await self._tell(type="cleared", conversation=self._conversation)
            case Choose():
                self._model = said.model or self._model
                if said.voice is not None:
                    choice = {"type": "choose", "voice": said.voice}
                    await self._worker.send(json.dumps(choice))
            case Hello():
                await self._tell(type="refused", reason="hello was said")
            case Typed():
                self._metrics.turns.labels("typed").inc()
                await self._worker.send(json.dumps({"type": "quiet"}))
                await self._worker.send(said.model_dump_json())
            case _:
                await self._worker.send(said.model_dump_json())

    async def _relay(self) -> None:
        """Forward messages of the worker until it ends."""
        try:
            async for message in self._worker:
                if isinstance(message, bytes):
                    await self._person.send(message)
                    continue
                told: Json = json.loads(message)
                handler = self._handlers.get(told["type"])
                if handler is not None:
                    await handler(told)
                elif told["type"] == "ready":
                    await self._tell(type="ready", conversation=self._conversation)
                else:
                    await self._person.send(message)
        except ConnectionClosed:
            log.warning("voice_worker_left")

    async def _ask(self, told: Json) -> None:
        task = asyncio.create_task(self._answer(told["turn"], told["text"]))
        self._answering[told["turn"]] = task
        task.add_done_callback(lambda _: self._answering.pop(told["turn"], None))

    async def _withdraw(self, told: Json) -> None:
        """The person spoke over it: the run ends, too."""
        task = self._answering.get(told["turn"])
        if task is not None:
            task.cancel()

    async def _turn(self, told: Json) -> None:
        self._metrics.turns.labels("spoken").inc()
        self._metrics.answered(told["stages"])
        if self._run is not None:
            await self._house.timed(self._run, told["stages"])
        await self._tell(type="turn", run=self._run, stages=told["stages"])

    async def _trouble(self, told: Json) -> None:
        """Log the reason; the client receives only the name of the failed part."""
        log.warning("voice_trouble", part=told["part"], reason=told["reason"])
        self._metrics.errors.labels(told["part"]).inc()
        await self._tell(type="trouble", part=told["part"], text=REASONS[told["part"]])

    async def _interrupted(self, told: Json) -> None:
        await self._tell(type="interrupted")

    async def _judged(self, told: Json) -> None:
        self._metrics.judged.labels("complete" if told["complete"] else "incomplete").inc()

    async def _barge_in(self, told: Json) -> None:
        """An answer was ended, while it was written or spoken; by a voice if that took time."""
        self._metrics.interruptions.inc()
        if told["seconds"] is not None:
            self._metrics.barge_in.observe(told["seconds"])

    async def _idle(self, told: Json) -> None:
        """End a session in which nobody has spoken for a long time."""
        await self._person.send(json.dumps(told))
        raise CallerLeft

    async def _lag(self, told: Json) -> None:
        self._metrics.lag.observe(told["seconds"])

    async def _tasks(self, told: Json) -> None:
        self._metrics.tasks.set(told["running"])

    async def _answer(self, turn: int, text: str) -> None:
        """One run; its words go to the worker, to be spoken, and to the page."""
        listener = Listener()
        try:
            run = await self._house.start(text, self._conversation, listener, self._model)
        except RunFailed as error:
            await self._failed(turn, error)
            return
        self._run = run
        await self._tell(type="asked", run=run, text=text)
        try:
            async for words in words_of(self._house, run, listener):
                await self._worker.send(json.dumps({"type": "words", "turn": turn, "text": words}))
                await self._tell(type="words", run=run, text=words)
        except RunFailed as error:
            await self._failed(turn, error)
        except asyncio.CancelledError:
            await asyncio.shield(self._house.cancel(run))
            raise
        else:
            await self._worker.send(json.dumps({"type": "answered", "turn": turn}))
        await self._tell(type="answered", run=run)

    async def _failed(self, turn: int, error: "RunFailed") -> None:
        await self._trouble({"part": "model", "reason": str(error)})
        failed = {"type": "failed", "turn": turn, "reason": "the run failed"}
        await self._worker.send(json.dumps(failed))

    async def _tell(self, **message: Any) -> None:
        await self._person.send(json.dumps(message))


class RunFailed(Exception):
    """The run of a turn gave no answer; the reason is in the run. The message is for the log, which
    must not contain text of a conversation.
    """


async def words_of(house: House, run: str, listener: Listener) -> AsyncIterator[str]:
    """Yield the answer of a run as it is written, or its question. Raises `RunFailed`."""
    said = False
    async for item in listener:
        if isinstance(item, Delta):
            said = True
            yield item.text
        elif isinstance(item, Event) and item.type == "node.waiting":
            yield str(item.data["question"]["text"])
            return
    result = await house.wait(run)
    if result.status != "done":
        raise RunFailed(f"run {run} {result.status}")
    if not said:
        yield str(result.outputs.get("text") or "")


def new_conversation() -> str:
    """Return an unused id of a conversation."""
    return f"voice-{uuid.uuid4().hex[:12]}"
