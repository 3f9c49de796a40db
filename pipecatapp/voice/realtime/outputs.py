"""The items of an answer while they are written: a message, or calls of the client's functions."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any, Final

from hearth.openai_api.chat import ToolCallDelta
from pipecatapp.voice.messages import SPOKEN_RATE, Json
from pipecatapp.voice.realtime.conversation import Item
from pipecatapp.voice.realtime.wire import new_id

Send = Callable[..., Awaitable[None]]

SAMPLE: Final = 2
"""Bytes of a sample."""


class Output:
    """An item of a response. `send` adds the ids of the response and of the item to an event."""

    def __init__(self, body: Json, send: Send) -> None:
        self.item = Item({"id": new_id("item"), "object": "realtime.item", **body})
        self._send = send

    async def close(self, status: str) -> None:
        """Send the last events of the item, whose status is then completed or incomplete."""
        raise NotImplementedError


class MessageOutput(Output):
    """The words of an answer, as text or as audio with its transcript."""

    def __init__(self, send: Send, *, spoken: bool) -> None:
        content: list[Json] = []
        super().__init__({"type": "message", "role": "assistant", "content": content}, send)
        self._spoken, self._text, self._sent, self._odd = spoken, "", 0, b""

    @property
    def _part(self) -> Json:
        """The part of its content, as events name it."""
        if self._spoken:
            return {"type": "audio", "transcript": self._text}
        return {"type": "text", "text": self._text}

    async def open(self) -> None:
        """Send the first event of its content."""
        await self._send("response.content_part.added", content_index=0, part=self._part)

    async def write(self, text: str) -> None:
        """Add words of the model."""
        self._text += text
        kind = "output_audio_transcript" if self._spoken else "output_text"
        await self._send(f"response.{kind}.delta", content_index=0, delta=text)

    def begin(self, words: str) -> None:
        """Record that the audio of these words begins here."""
        self.item.spoken.append((words, self._sent * 1000 // (SAMPLE * SPOKEN_RATE)))

    async def sound(self, data: bytes) -> None:
        """Send audio in whole samples."""
        data = self._odd + data
        end = len(data) - len(data) % SAMPLE
        self._odd = data[end:]
        if end:
            self._sent += end
            delta = base64.b64encode(data[:end]).decode("ascii")
            await self._send("response.output_audio.delta", content_index=0, delta=delta)

    async def close(self, status: str) -> None:
        if self._spoken and status == "incomplete":
            self._text = " ".join(words for words, _ in self.item.spoken)
        if self._spoken:
            await self._send("response.output_audio.done", content_index=0)
            await self._send(
                "response.output_audio_transcript.done", content_index=0, transcript=self._text
            )
        else:
            await self._send("response.output_text.done", content_index=0, text=self._text)
        part = self._part
        await self._send("response.content_part.done", content_index=0, part=part)
        self.item.body["content"] = [{**part, "type": f"output_{part['type']}"}]


class CallOutput(Output):
    """A call of a function of the client."""

    def __init__(self, send: Send) -> None:
        body: dict[str, Any] = {"type": "function_call", "name": "", "arguments": ""}
        super().__init__({**body, "call_id": new_id("call")}, send)

    def begin(self, delta: ToolCallDelta) -> None:
        """Take the name and the id from the first part of the call."""
        if delta.id:
            self.item.body["call_id"] = delta.id
        if delta.function is not None and delta.function.name:
            self.item.body["name"] = delta.function.name

    async def write(self, arguments: str) -> None:
        """Add a part of the arguments, which are JSON."""
        self.item.body["arguments"] += arguments
        call = self.item.body["call_id"]
        kind = "response.function_call_arguments.delta"
        await self._send(kind, call_id=call, delta=arguments)

    async def close(self, status: str) -> None:
        body = self.item.body
        named = {name: body[name] for name in ("call_id", "name", "arguments")}
        await self._send("response.function_call_arguments.done", **named)
