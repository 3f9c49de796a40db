"""A realtime session: the events of a client, from its connection until it leaves."""

import asyncio
import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import structlog
from wyoming.audio import AudioChunk, AudioChunkConverter

from hearth.openai_api.client import ModelClient
from pipecatapp.voice.manners import Manners
from pipecatapp.voice.messages import HEARD_RATE, SPOKEN_RATE, Hello, Json
from pipecatapp.voice.realtime.conversation import Conversation, Item, item_of
from pipecatapp.voice.realtime.hearing import Hearing
from pipecatapp.voice.realtime.response import Reason, Response
from pipecatapp.voice.realtime.session import ResponseSettings, Session
from pipecatapp.voice.realtime.wire import EventRefused, Events, Socket, new_id
from pipecatapp.voice.satellites.engines import EngineFailed, Engines
from pipecatapp.voice.studio import NoSpeech, Studio
from pipecatapp.voice.talk import CallerLeft

log = structlog.get_logger()

MOST_AUDIO_SECONDS: Final = 120
"""Of the buffer, where the client commits it."""

RATE: Final = 2 * SPOKEN_RATE
"""Bytes a second of the client's audio."""


@dataclass(frozen=True)
class House:
    """The parts of the service that a session uses. `headers` are those of each request to the
    gateway; `ran` is called with the id of each run that answers.
    """

    studio: Studio
    model: ModelClient
    headers: Mapping[str, str]
    ran: Callable[[str], None]


class Connection:
    """One client with its conversation."""

    def __init__(self, socket: Socket, house: House, model: str) -> None:
        self._socket, self._house = socket, house
        self._events, self._conversation = Events(socket), Conversation()
        self._session = Session(id=new_id("sess"), model=model)
        self._stack = AsyncExitStack()
        self._engines: Engines | None = None
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._buffer = bytearray()
        self._heard_bytes = self._began = 0
        self._speech = new_id("item")
        self._hearing: Hearing | None = None
        self._listening: asyncio.Task[None] | None = None
        self._responses: set[Response] = set()
        self._answering: asyncio.Task[None] | None = None
        self._convert = self._converter()
        self._handlers: dict[str, Callable[[Json], Awaitable[None]]] = {
            "session.update": self._update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
            "conversation.item.create": self._create_item,
            "conversation.item.retrieve": self._retrieve_item,
            "conversation.item.truncate": self._truncate_item,
            "conversation.item.delete": self._delete_item,
            "response.create": self._create_response,
            "response.cancel": self._cancel_response,
        }
        self._reports: dict[str, Callable[[Json], Awaitable[None]]] = {
            "voice": self._voice,
            "ask": self._turn,
            "trouble": self._trouble,
            "idle": self._idle,
        }

    async def serve(self) -> None:
        """Serve the client until it disconnects; cancel its response. Raises `CallerLeft`."""
        try:
            await self._events.send("session.created", session=self._shown())
            while True:
                await self._take(await self._socket.receive())
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._stack.aclose()

    def _shown(self) -> Json:
        return self._session.model_dump()

    async def _take(self, message: str | bytes) -> None:
        event_id: str | None = None
        try:
            event = event_of(message)
            event_id = event.get("event_id")
            await self._handler_of(event)(event)
        except EventRefused as refused:
            await self._refuse(refused, event_id)

    def _handler_of(self, event: Json) -> Callable[[Json], Awaitable[None]]:
        handler = self._handlers.get(str(event.get("type")))
        if handler is None:
            known = ", ".join(self._handlers)
            message = f"The event type {str(event.get('type'))[:100]!r} is unknown. Known: {known}."
            raise EventRefused("unknown_event", message, "type")
        return handler

    async def _refuse(self, refused: EventRefused, event_id: str | None = None) -> None:
        await self._events.send("error", error=refused.body(event_id))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`; report a failure to the client, and keep the connection."""
        try:
            try:
                await work
            except EventRefused as refused:
                await self._refuse(refused)
            except Exception:
                log.exception("realtime_work_broke")
                error = {"type": "server_error", "code": "internal_error"}
                message = "The agent failed here; see its log."
                await self._events.send("error", error={**error, "message": message})
        except CallerLeft:
            return

    # The session

    async def _update(self, event: Json) -> None:
        self._session = self._session.updated(object_of(event, "session"))
        if self._session.audio.input.turn_detection is None:
            self._stop_listening()
        await self._events.send("session.updated", session=self._shown())

    async def _opened_engines(self) -> Engines:
        """The services of speech, opened once. Raises `NoSpeech`."""
        async with self._opening:
            if self._engines is None:
                setup = await self._house.studio.setup(Hello(type="hello"))
                self._engines = await self._stack.enter_async_context(Engines.opened(setup))
        return self._engines

    # Audio of the client

    async def _append(self, event: Json) -> None:
        audio = samples_of(event.get("audio"))
        if self._session.audio.input.turn_detection is None:
            if len(self._buffer) + len(audio) > MOST_AUDIO_SECONDS * RATE:
                message = f"The buffer holds at most {MOST_AUDIO_SECONDS} seconds: commit it."
                raise EventRefused("input_audio_buffer_too_large", message, "audio")
            self._buffer += audio
            return
        hearing = await self._opened_hearing()
        hearing.hear(self._convert(chunk(audio)).audio)
        self._heard_bytes += len(audio)

    def _converter(self) -> Callable[[AudioChunk], AudioChunk]:
        return AudioChunkConverter(rate=HEARD_RATE, width=2, channels=1).convert

    async def _opened_hearing(self) -> Hearing:
        if self._hearing is None:
            hello = Hello(type="hello", echo_cancelled=True)
            try:
                setup = await self._house.studio.setup(hello)
            except NoSpeech as error:
                raise EventRefused("speech_unavailable", str(error)) from error
            setup = setup.model_copy(update={"manners": Manners(stop_words=())})
            self._hearing = Hearing(self._house.studio, setup, self._report)
            self._listening = self._spawn(self._listen(self._hearing))
        return self._hearing

    async def _listen(self, hearing: Hearing) -> None:
        try:
            await hearing.run()
        finally:
            if self._hearing is hearing:
                self._hearing = None

    def _stop_listening(self) -> None:
        self._hearing = None
        if self._listening is not None:
            self._listening.cancel()

    async def _commit(self, event: Json) -> None:
        if not self._buffer:
            message = "The buffer is empty, or the server commits it (`turn_detection`)."
            raise EventRefused("input_audio_buffer_commit_empty", message)
        audio, self._buffer = bytes(self._buffer), bytearray()
        item = await self._add_speech(new_id("item"), None)
        item.transcript = self._spawn(self._transcribe(item, audio))

    async def _clear(self, event: Json) -> None:
        self._buffer.clear()
        if self._hearing is not None:
            self._hearing.clear()
        await self._events.send("input_audio_buffer.cleared")

    async def _add_speech(self, id: str, transcript: str | None) -> Item:
        """Add a turn that was spoken."""
        part = {"type": "input_audio", "transcript": transcript}
        body = {"type": "message", "role": "user", "content": [part]}
        item = Item({"id": id, "object": "realtime.item", "status": "completed", **body})
        before = self._conversation.add(item)
        await self._events.send("input_audio_buffer.committed", item_id=id, previous_item_id=before)
        await self._show_added(item, before)
        return item

    async def _show_added(self, item: Item, before: str | None) -> None:
        for kind in ("added", "done"):
            await self._events.send(
                f"conversation.item.{kind}", item=item.body, previous_item_id=before
            )

    async def _transcribe(self, item: Item, audio: bytes, index: int = 0) -> None:
        """Fill in the words of audio that the client has committed."""
        transcription = self._session.audio.input.transcription
        language = None if transcription is None else transcription.language
        try:
            engines = await self._opened_engines()
            sound = self._converter()(chunk(audio)).audio
            text = (await engines.heard(sound, language)).strip()
        except (EngineFailed, NoSpeech) as error:
            log.warning("realtime_not_transcribed", reason=str(error))
            failed = {"type": "server_error", "code": "transcription_failed", "message": str(error)}
            await self._events.send(
                "conversation.item.input_audio_transcription.failed",
                item_id=item.id, content_index=index, error=failed,
            )  # fmt: skip
            return
        item.body["content"][index]["transcript"] = text
        await self._show_transcript(item, text, len(audio) / RATE, index)

    async def _show_transcript(self, item: Item, text: str, seconds: float, index: int = 0) -> None:
        if self._session.audio.input.transcription is not None:
            await self._events.send(
                "conversation.item.input_audio_transcription.completed",
                item_id=item.id, content_index=index, transcript=text,
                usage={"type": "duration", "seconds": round(seconds, 3)},
            )  # fmt: skip

    # Turns that the voice worker has found

    async def _report(self, event: Json) -> None:
        report = self._reports.get(event["type"])
        if report is not None:
            await report(event)

    @property
    def _milliseconds(self) -> int:
        """The length of the audio received so far."""
        return self._heard_bytes * 1000 // RATE

    async def _voice(self, event: Json) -> None:
        now, id = self._milliseconds, self._speech
        if not event["speaking"]:
            await self._events.send(
                "input_audio_buffer.speech_stopped", audio_end_ms=now, item_id=id
            )
            return
        self._speech = id = new_id("item")
        self._began = now
        await self._events.send("input_audio_buffer.speech_started", audio_start_ms=now, item_id=id)
        detection = self._session.audio.input.turn_detection
        if detection is not None and detection.interrupt_response and self._stop("turn_detected"):
            self._house.studio.metrics.interruptions.inc()

    async def _turn(self, event: Json) -> None:
        self._house.studio.metrics.turns.labels("spoken").inc()
        item = await self._add_speech(self._speech, event["text"])
        seconds = (self._milliseconds - self._began) / 1000
        await self._show_transcript(item, event["text"], seconds)
        self._speech = new_id("item")
        detection = self._session.audio.input.turn_detection
        if detection is None or detection.create_response:
            self._start(ResponseSettings.of(self._session, {}))

    async def _trouble(self, event: Json) -> None:
        log.warning("voice_trouble", part=event["part"], reason=event["reason"])
        self._house.studio.metrics.errors.labels(event["part"]).inc()
        if event["part"] == "hearing":
            await self._refuse(
                EventRefused("transcription_failed", "Speech-to-text does not respond.")
            )

    async def _idle(self, event: Json) -> None:
        message = "Nobody has spoken for a long time; the next audio begins again."
        await self._refuse(EventRefused("voice_idle", message))
        self._stop_listening()

    # Items

    async def _create_item(self, event: Json) -> None:
        body = object_of(event, "item")
        item = item_of(body)
        sounds = {
            index: samples_of(part.pop("audio"))
            for index, part in enumerate(item.body.get("content", ()))
            if part.get("audio") is not None
        }
        before = self._conversation.add(item, event.get("previous_item_id"))
        await self._show_added(item, before)
        for index, audio in sounds.items():
            if not item.body["content"][index].get("transcript"):
                item.transcript = self._spawn(self._transcribe(item, audio, index))

    async def _retrieve_item(self, event: Json) -> None:
        item = self._conversation.item(str(event.get("item_id")))
        await self._events.send("conversation.item.retrieved", item=item.body)

    async def _truncate_item(self, event: Json) -> None:
        item, end = self._conversation.item(str(event.get("item_id"))), event.get("audio_end_ms")
        if not isinstance(end, int) or isinstance(end, bool) or end < 0:
            raise EventRefused("invalid_value", "A number of milliseconds.", "audio_end_ms")
        item.truncate(end)
        await self._events.send(
            "conversation.item.truncated", item_id=item.id, content_index=0, audio_end_ms=end
        )

    async def _delete_item(self, event: Json) -> None:
        id = str(event.get("item_id"))
        self._conversation.remove(id)
        await self._events.send("conversation.item.deleted", item_id=id)

    # Responses

    async def _create_response(self, event: Json) -> None:
        if self._active:
            message = "A response is being written: wait for its end or cancel it."
            raise EventRefused("conversation_already_has_active_response", message)
        settings = ResponseSettings.of(self._session, event.get("response") or {})
        self._start(settings)

    @property
    def _active(self) -> bool:
        return self._answering is not None and not self._answering.done()

    def _start(self, settings: ResponseSettings) -> None:
        """Start a response, after the end of the one before it."""
        response = Response(
            self._events, self._conversation, settings, self._items_for(settings),
            name=self._session.model, model=self._house.model,
            headers={**self._house.headers, "x-session-id": self._session.id},
            engines=self._opened_engines, ran=self._house.ran,
        )  # fmt: skip
        self._responses.add(response)
        self._answering = self._spawn(response.run(self._answering if self._active else None))
        self._answering.add_done_callback(lambda _: self._responses.discard(response))

    def _items_for(self, settings: ResponseSettings) -> list[Item]:
        """The items that a response answers. Raises `EventRefused`."""
        if settings.input is None:
            return self._conversation.items
        found = []
        for body in settings.input:
            if body.get("type") == "item_reference":
                found.append(self._conversation.item(str(body.get("id"))))
            else:
                found.append(item_of(body, within="response.input"))
        return found

    async def _cancel_response(self, event: Json) -> None:
        if not self._stop("client_cancelled"):
            message = "No response is being written."
            raise EventRefused("response_cancel_not_active", message)

    def _stop(self, reason: Reason) -> bool:
        """Cancel the response, and those that wait for its end; return whether there was one."""
        stopped = [response.stop(reason) for response in self._responses]
        return any(stopped)


def event_of(message: str | bytes) -> Json:
    """Return an event of the client. Raises `EventRefused`."""
    try:
        event = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise EventRefused("invalid_json", "The message is not valid JSON.") from error
    if not isinstance(event, dict):
        raise EventRefused("invalid_event", "An event is a JSON object.")
    event_id = event.get("event_id")
    if event_id is not None and not isinstance(event_id, str):
        raise EventRefused("invalid_value", "The id of an event is a string.", "event_id")
    return event


def object_of(event: Json, name: str) -> Json:
    """Return a field that is an object. Raises `EventRefused`."""
    value = event.get(name)
    if not isinstance(value, dict):
        raise EventRefused("missing_required_parameter", f"`{name}` must be an object.", name)
    return value


def samples_of(text: object) -> bytes:
    """Return audio that was sent as base64. Raises `EventRefused`."""
    try:
        data = base64.b64decode(text if isinstance(text, str) else "!", validate=True)
    except (binascii.Error, ValueError) as error:
        raise EventRefused("invalid_value", "The audio is not base64.", "audio") from error
    if len(data) % 2:
        raise EventRefused("invalid_value", "The audio has half a sample of 16 bits.", "audio")
    return data


def chunk(audio: bytes) -> AudioChunk:
    """Audio of the client, at its rate."""
    return AudioChunk(rate=SPOKEN_RATE, width=2, channels=1, audio=audio)
