"""One response: a chat completion at the gateway, as events, spoken while it is written."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeVar

import structlog

from hearth.openai_api.chat import ChatRequest, Chunk, Message, StreamOptions, ToolCallDelta, Usage
from hearth.openai_api.client import ModelClient
from hearth.openai_api.errors import ModelError, ModelRefused, message_of
from pipecatapp.voice.clauses import Clauses
from pipecatapp.voice.messages import Json
from pipecatapp.voice.realtime.conversation import Conversation, Item, messages_of
from pipecatapp.voice.realtime.outputs import CallOutput, MessageOutput, Output
from pipecatapp.voice.realtime.session import ResponseSettings
from pipecatapp.voice.realtime.wire import INVALID, EventRefused, Events, new_id
from pipecatapp.voice.satellites.engines import EngineFailed, Engines
from pipecatapp.voice.studio import NoSpeech

log = structlog.get_logger()

RUN: Final = "x-hearth-run"
"""The header with the id of the run that has answered, if an agent has."""

FAILURES: Final = (ModelError, EngineFailed, NoSpeech, EventRefused)
Reason = Literal["turn_detected", "client_cancelled"]
Some = TypeVar("Some", bound=Output)


class Response:
    """A response, from `run` until its last event.

    `model` is the client of the gateway, `headers` are those of each request to it. `engines`
    opens the speech services when audio is needed; it raises `NoSpeech`. `ran` is called with the
    id of a run that answers.
    """

    def __init__(
        self,
        events: Events,
        conversation: Conversation,
        settings: ResponseSettings,
        items: Sequence[Item],
        *,
        name: str,
        model: ModelClient,
        headers: Mapping[str, str],
        engines: Callable[[], Awaitable[Engines]],
        ran: Callable[[str], None],
    ) -> None:
        self.id = new_id("resp")
        self._events, self._conversation, self._settings = events, conversation, settings
        self._items, self._name, self._model, self._headers = items, name, model, headers
        self._engines, self._ran = engines, ran
        self._outputs: list[Output] = []
        self._message: MessageOutput | None = None
        self._calls: dict[int, CallOutput] = {}
        self._clauses = Clauses()
        self._to_speak: asyncio.Queue[str | None] = asyncio.Queue()
        self._usage: Usage | None = None
        self._finish: str | None = None
        self._cancelled: Reason | None = None
        """The reason why its task is cancelled; None while it is not, or if the client has left."""
        self._task: asyncio.Task[None] | None = None

    def stop(self, reason: Reason) -> bool:
        """Cancel the response. Returns False if it has ended or is ending."""
        if self._task is None or self._cancelled is not None:
            return False
        self._cancelled = reason
        return self._task.cancel()

    async def run(self, before: "asyncio.Task[None] | None") -> None:
        """Answer after another response has ended. A failure is reported in the last event.
        Raises `CallerLeft`.
        """
        await self._events.send("response.created", response=self._body("in_progress"))
        self._task, details = asyncio.current_task(), dict[str, Any]()
        try:
            if before is not None:
                await asyncio.wait({before})
            await self._answer()
            status = "incomplete" if self._finish == "length" else "completed"
            if status == "incomplete":
                details = {"reason": "max_output_tokens"}
        except asyncio.CancelledError:
            if self._cancelled is None:
                raise
            status, details = "cancelled", {"reason": self._cancelled}
        except FAILURES as error:
            log.warning("realtime_response_failed", response=self.id, reason=type(error).__name__)
            status, details = "failed", {"error": error_of(error)}
        finally:
            self._task = None
        await self._close(status, details)

    async def _close(self, status: str, details: Json) -> None:
        ended = "completed" if status == "completed" else "incomplete"
        for index, output in enumerate(self._outputs):
            await output.close(ended)
            output.item.body["status"] = ended
            if self._kept:
                await self._events.send("conversation.item.done", item=output.item.body)
            await self._send_of(index, "response.output_item.done", item=output.item.body)
        body = self._body(status) | {"status_details": {"type": status, **details}}
        await self._events.send("response.done", response=body)

    async def _answer(self) -> None:
        """Write the answer and speak it at the same time."""
        request = ChatRequest(
            model=self._name,
            messages=await self._messages(),
            stream_options=StreamOptions(include_usage=True),
            **self._settings.chat_fields(),
        )
        if not self._settings.spoken:
            await self._write(request)
            return
        speaking = asyncio.create_task(self._speak())
        try:
            await self._write(request)
            for piece in self._clauses.flush():
                self._to_speak.put_nowait(piece)
            self._to_speak.put_nowait(None)
            await speaking
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)

    async def _messages(self) -> list[Message]:
        """The messages to answer; waits for the transcripts of audio."""
        waiting = [item.transcript for item in self._items if item.transcript is not None]
        if waiting:
            await asyncio.wait(waiting)
        first = self._settings.instructions
        system = [Message(role="system", content=first)] if first else []
        return [*system, *messages_of(self._items)]

    async def _write(self, request: ChatRequest) -> None:
        async with self._model.stream(request, headers=self._headers) as chunks:
            if run := chunks.headers.get(RUN):
                self._ran(run)
            async for chunk in chunks:
                await self._take(chunk)

    async def _take(self, chunk: Chunk) -> None:
        self._usage = chunk.usage or self._usage
        for choice in chunk.choices:
            self._finish = choice.finish_reason or self._finish
            if choice.delta.content:
                await self._words(choice.delta.content)
            for call in choice.delta.tool_calls or ():
                await self._call(call)

    async def _words(self, text: str) -> None:
        if self._message is None:
            self._message = await self._opened(partial(MessageOutput, spoken=self._settings.spoken))
            await self._message.open()
        await self._message.write(text)
        if self._settings.spoken:
            for piece in self._clauses.feed(text):
                self._to_speak.put_nowait(piece)

    async def _call(self, delta: ToolCallDelta) -> None:
        call = self._calls.get(delta.index)
        if call is None:
            call = self._calls[delta.index] = await self._opened(CallOutput, delta)
        if delta.function is not None and delta.function.arguments:
            await call.write(delta.function.arguments)

    async def _opened(self, make: Callable[..., Some], first: ToolCallDelta | None = None) -> Some:
        """Add an item to the response and send its first events."""
        index = len(self._outputs)
        output = make(lambda type, **fields: self._send_of(index, type, **fields))
        if isinstance(output, CallOutput) and first is not None:
            output.begin(first)
        output.item.body["status"] = "in_progress"
        self._outputs.append(output)
        body = output.item.body
        await self._events.send(
            "response.output_item.added", response_id=self.id, output_index=index, item=body
        )
        if self._kept:
            before = self._conversation.add(output.item)
            await self._events.send("conversation.item.added", item=body, previous_item_id=before)
        return output

    @property
    def _kept(self) -> bool:
        """Whether the answer becomes a part of the conversation."""
        return self._settings.conversation != "none"

    async def _send_of(self, index: int, type: str, **fields: Any) -> None:
        """Send an event of an item of this response."""
        if not type.startswith("response.output_item."):
            fields["item_id"] = self._outputs[index].item.id
        await self._events.send(type, response_id=self.id, output_index=index, **fields)

    async def _speak(self) -> None:
        """Speak piece after piece until the end of the answer."""
        while (piece := await self._to_speak.get()) is not None:
            engines = await self._engines()
            assert self._message is not None
            self._message.begin(piece)
            async for sound in engines.spoken(piece, self._settings.audio.output.voice_id):
                await self._message.sound(sound)

    def _body(self, status: str) -> Json:
        settings = self._settings
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": None,
            "output": [output.item.body for output in self._outputs],
            "conversation_id": self._conversation.id if self._kept else None,
            "output_modalities": settings.output_modalities,
            "max_output_tokens": settings.max_output_tokens,
            "audio": settings.audio.model_dump(),
            "usage": None if self._usage is None else usage_of(self._usage),
            "metadata": settings.metadata,
        }


def usage_of(usage: Usage) -> Json:
    """Return the tokens of a chat completion as those of a realtime response."""
    cached = (usage.body().get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return {
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "input_token_details": {
            "text_tokens": usage.prompt_tokens,
            "audio_tokens": 0,
            "cached_tokens": cached,
        },
        "output_token_details": {"text_tokens": usage.completion_tokens, "audio_tokens": 0},
    }


def error_of(error: Exception) -> Json:
    """Return the error of a failed response; for a refusal of the gateway in its own words."""
    if isinstance(error, EventRefused):
        return {"type": INVALID, "code": error.code, "message": str(error)}
    if isinstance(error, ModelRefused):
        inner = error.body.get("error") if isinstance(error.body, dict) else None
        code = inner.get("code") if isinstance(inner, dict) else None
        return {
            "type": INVALID,
            "code": code or str(error.status),
            "message": message_of(error.body),
        }
    code = "model_failed" if isinstance(error, ModelError) else "speech_failed"
    return {"type": "server_error", "code": code, "message": str(error)}
