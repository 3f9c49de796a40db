"""`POST /v1/audio/speech`: a text, spoken."""

import base64
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse

from hearth.service.http_errors import Refused
from speech.api.answers import known_caller
from speech.api.events import EVENTS, event, failure
from speech.audio import MEDIA_TYPES, Format, Samples, encoded
from speech.duty import Mouth
from speech.errors import SpeechError
from speech.words import sentences

router = APIRouter(dependencies=[Depends(known_caller)])

STOCK_VOICES: Final = frozenset(
    {"alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage"}
    | {"shimmer", "verse", "default"}
)
"""Voice names that OpenAI's clients send by default: they select the installed voice."""


TOKENS_PER_SECOND: Final = 20
"""Tokens of sound, as OpenAI counts them: one for 50 ms that a model speaks
(https://platform.openai.com/docs/guides/realtime-costs)."""


class VoiceId(BaseModel):
    """The other form in which OpenAI's clients name a voice."""

    id: str


class SpeechRequest(BaseModel):
    """OpenAI's request; any `model` is accepted, since a service has only one.

    `instructions` describe a style. The voices here have one style, and some clients always send
    instructions, so they have no effect.
    """

    model_config = ConfigDict(extra="forbid")

    input: Annotated[str, Field(min_length=1, max_length=4096)]
    model: str = ""
    voice: str | VoiceId = "default"
    instructions: str | None = None
    response_format: Format = "mp3"
    stream_format: Literal["audio", "sse"] = "audio"
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0

    @property
    def voice_name(self) -> str:
        """The name of the voice, in any of the accepted forms."""
        return self.voice if isinstance(self.voice, str) else self.voice.id


@dataclass
class Spoken:
    """How long the sound of one answer is, while it is made."""

    seconds: float = 0.0

    def usage(self, text: str) -> dict[str, int]:
        """Return counts as OpenAI has them: words of the text, and tokens of the sound."""
        words, sound = len(text.split()), ceil(self.seconds * TOKENS_PER_SECOND)
        return {"input_tokens": words, "output_tokens": sound, "total_tokens": words + sound}


@router.get("/v1/audio/voices")
async def list_voices(request: Request) -> dict[str, list[dict[str, str]]]:
    """The voices that a request may name; OpenAI's API has no such list."""
    mouth: Mouth = request.app.state.mouth
    return {"voices": [{"id": mouth.engine.name, "language": mouth.engine.language}]}


@router.post("/v1/audio/speech")
async def speak(body: SpeechRequest, request: Request) -> StreamingResponse:
    """Stream the audio while it is synthesised; the response starts with its first part."""
    mouth: Mouth = request.app.state.mouth
    if body.voice_name not in STOCK_VOICES | {mouth.engine.name}:
        raise Refused(
            400, "unknown_voice",
            f"There is no voice {body.voice_name!r} here, only {mouth.engine.name}.", param="voice",
        )  # fmt: skip
    if not any(sentences(body.input)):
        raise Refused(400, "nothing_to_say", "The text has no words.", param="input")
    length = Spoken()
    sound = spoken(mouth, body, length)
    first = await anext(sound)
    pieces, kind = _from_the_first(first, sound), MEDIA_TYPES[body.response_format]
    voice = {"x-speech-voice": mouth.engine.name}
    if body.stream_format == "sse":
        return StreamingResponse(_events(pieces, body, length), media_type=EVENTS, headers=voice)
    return StreamingResponse(pieces, media_type=kind, headers=voice)


async def spoken(mouth: Mouth, body: SpeechRequest, length: Spoken) -> AsyncGenerator[bytes]:
    """Yield the bytes of the answer, counted as one request; no piece is empty. Updates `length`.

    If the client disconnects, the synthesis of the current sentence is stopped as well.
    """
    with mouth.metrics.counted():
        async with (
            aclosing(mouth.say(body.input, speed=body.speed)) as samples,
            aclosing(_measured(samples, mouth.engine.rate, length)) as measured,
            aclosing(encoded(measured, mouth.engine.rate, body.response_format)) as pieces,
        ):
            async for piece in pieces:
                if piece:
                    yield piece


async def _measured(
    samples: AsyncGenerator[Samples], rate: int, length: Spoken
) -> AsyncGenerator[Samples]:
    async for chunk in samples:
        length.seconds += len(chunk) / rate
        yield chunk


async def _events(
    pieces: AsyncGenerator[bytes], body: SpeechRequest, length: Spoken
) -> AsyncIterator[str]:
    """Yield OpenAI's events: audio in base64, then the end or an error."""
    async with aclosing(pieces):
        try:
            async for piece in pieces:
                audio = base64.b64encode(piece).decode("ascii")
                yield event({"type": "speech.audio.delta", "audio": audio})
        except SpeechError as error:
            yield failure(error)
            return
    yield event({"type": "speech.audio.done", "usage": length.usage(body.input)})


async def _from_the_first(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece
