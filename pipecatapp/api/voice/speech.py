"""Dictation and reading aloud: sound to text and text to sound, without a conversation by voice."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated, Final

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse

from hearth.service.http_errors import Refused
from pipecatapp.api.access import known_caller
from pipecatapp.api.routing import api_router
from pipecatapp.api.voice.choices import studio_of
from pipecatapp.voice.clauses import Clauses
from pipecatapp.voice.messages import HEARD_RATE, SPOKEN_RATE, Hello
from pipecatapp.voice.satellites.engines import EngineFailed, Engines
from pipecatapp.voice.studio import NoSpeech, Studio

router = api_router("/api/voice", dependencies=[Depends(known_caller)])

LONGEST_SECONDS: Final = 120
"""Of a recording."""
RATE_HEADER: Final = "x-hearth-rate"

WithStudio = Annotated[Studio, Depends(studio_of)]


class Transcript(BaseModel):
    """The transcript; empty if nobody spoke."""

    text: str


class SpokenText(BaseModel):
    """Markdown to read aloud; code and marks are left out."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=100_000)
    voice: str | None = Field(None, min_length=1, max_length=100)


@router.post("/transcription")
async def transcribe(request: Request, studio: WithStudio) -> Transcript:
    """The words of a recording, which is the body: signed 16-bit samples, little endian, one
    channel, 16,000 a second.
    """
    sound = await request.body()
    if not sound or len(sound) % 2:
        raise Refused(400, "invalid_audio", "The recording has no whole 16-bit samples.")
    if len(sound) > LONGEST_SECONDS * HEARD_RATE * 2:
        reason = f"The recording is longer than {LONGEST_SECONDS} seconds."
        raise Refused(400, "audio_too_long", reason)
    async with AsyncExitStack() as stack:
        engines = await _engines(studio, stack)
        try:
            return Transcript(text=(await engines.heard(sound, None)).strip())
        except EngineFailed as error:
            raise _failed("Speech to text", error) from error


@router.post("/speech")
async def speak(body: SpokenText, studio: WithStudio) -> StreamingResponse:
    """Return a text as audio, streamed while it is synthesised: samples in the format of
    `/transcription`, at the rate in the header `x-hearth-rate`.
    """
    clauses = Clauses()
    pieces = [*clauses.feed(body.text), *clauses.flush()]
    if not pieces:
        raise Refused(400, "nothing_to_say", "The text has no words to read aloud.", param="text")
    stack = AsyncExitStack()
    try:
        sound = _sound(await _engines(studio, stack), pieces, body.voice)
        first = await anext(sound, b"")
    except BaseException as error:
        await stack.aclose()
        if isinstance(error, EngineFailed):
            raise _failed("Text to speech", error) from error
        raise
    headers = {RATE_HEADER: str(SPOKEN_RATE)}
    stream = _rest(first, sound, stack)
    return StreamingResponse(stream, media_type="application/octet-stream", headers=headers)


async def _sound(engines: Engines, pieces: list[str], voice: str | None) -> AsyncIterator[bytes]:
    for piece in pieces:
        async for samples in engines.spoken(piece, voice):
            yield samples


async def _rest(
    first: bytes, sound: AsyncIterator[bytes], stack: AsyncExitStack
) -> AsyncIterator[bytes]:
    async with stack:
        yield first
        async for samples in sound:
            yield samples


async def _engines(studio: Studio, stack: AsyncExitStack) -> Engines:
    """The services of speech; `Refused` (503) where there are none."""
    try:
        setup = await studio.setup(Hello(type="hello"))
    except NoSpeech as error:
        raise Refused(503, "no_speech", str(error)) from error
    return await stack.enter_async_context(Engines.opened(setup))


def _failed(what: str, error: EngineFailed) -> Refused:
    return Refused(502, "speech_failed", f"{what} failed: {error}")
