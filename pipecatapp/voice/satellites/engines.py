"""Speech-to-text and text-to-speech for clients that use only one of them."""

import io
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx2

from hearth.openai_api.errors import message_of
from hearth.service.settings import trusting
from pipecatapp.voice.messages import HEARD_RATE, Setup

ENGINE_SECONDS: Final = 60.0


class EngineFailed(Exception):
    """A service of speech did not answer, or refused; its own words are in `str(error)`."""


class Engines:
    """The services `speech-stt` and `speech-tts`, as OpenAI's audio API."""

    def __init__(self, http: httpx2.AsyncClient, setup: Setup) -> None:
        self._http, self._setup = http, setup

    @classmethod
    @asynccontextmanager
    async def opened(cls, setup: Setup) -> AsyncIterator["Engines"]:
        """With a client that lives as long as the block."""
        async with httpx2.AsyncClient(
            headers={"authorization": f"Bearer {setup.key}"}, timeout=ENGINE_SECONDS,
            trust_env=False, verify=trusting(Path(setup.ca_file) if setup.ca_file else None),
        ) as http:  # fmt: skip
            yield cls(http, setup)

    async def heard(self, sound: bytes, language: str | None) -> str:
        """The words of samples of `HEARD_RATE`. Raises `EngineFailed`."""
        more = {"language": language.partition("-")[0]} if language else {}
        try:
            answer = await self._http.post(
                f"{self._setup.stt}/v1/audio/transcriptions",
                files={"file": ("speech.wav", wav(sound), "audio/wav")},
                data={"model": "speech-stt"} | more,
            )
            told(answer)
            return str(answer.json()["text"])
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            raise EngineFailed(f"speech-stt: {error!r}") from error

    async def spoken(self, text: str, voice: str | None) -> AsyncIterator[bytes]:
        """Yield the audio of a text as it is synthesised, at `SPOKEN_RATE`. Raises
        `EngineFailed`."""
        asked = {"input": text, "response_format": "pcm", "voice": voice or "default"}
        try:
            async with self._http.stream(
                "POST", f"{self._setup.tts}/v1/audio/speech", json=asked
            ) as answer:
                if answer.is_error:
                    await answer.aread()
                told(answer)
                async for piece in answer.aiter_bytes():
                    yield piece
        except httpx2.HTTPError as error:
            raise EngineFailed(f"speech-tts: {error!r}") from error


def told(answer: httpx2.Response) -> None:
    """Raise `EngineFailed` with the message of a service that refused a request."""
    if answer.is_error:
        try:
            reason = message_of(answer.json())
        except ValueError:
            reason = answer.text[:200]
        raise EngineFailed(f"HTTP {answer.status_code}: {reason}")


def wav(sound: bytes) -> bytes:
    """Samples of `HEARD_RATE` as a file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(HEARD_RATE)
        writer.writeframes(sound)
    return file.getvalue()
