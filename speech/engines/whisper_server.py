"""The compiled whisper.cpp: its server as a child process, called over HTTP on loopback."""

import asyncio
import io
import shutil
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import httpx2
import numpy as np
import psutil
import soundfile

from hearth.process.child import KILL, Child, Streams
from speech.audio import HEARING_RATE, Samples
from speech.engines.child import ANSWER_SECONDS, START_SECONDS, Keeper
from speech.engines.hearing import Segment
from speech.errors import EngineFailed
from speech.languages import MANY
from speech.metrics import SpeechMetrics
from speech.settings import engine_environment

HOST: Final = "127.0.0.1"
FRAMES_A_SECOND: Final = 50
WHOLE_CONTEXT: Final = 1500
"""Frames of Whisper's encoder: 30 seconds, unless a request sets a smaller number."""

LEAST_CONTEXT: Final = 512
"""With less context than this the small models repeat themselves (decision 0135)."""


class WhisperServer:
    """One model of whisper.cpp's own format (ggml), on whatever the server was compiled for."""

    def __init__(
        self,
        name: str,
        language: str,
        model: Path,
        *,
        binary: Path | None,
        threads: int,
        most_bytes: int,
        metrics: SpeechMetrics,
    ) -> None:
        self.name, self.language = name, language

        async def start() -> ServerProcess:
            return await ServerProcess.start(name, found(binary), model, threads)

        self._keeper = Keeper(name, start, most_bytes=most_bytes, metrics=metrics)

    async def open(self) -> None:
        """Start the server, and warm it up with a second of silence."""
        await self._keeper.open()

    async def close(self) -> None:
        await self._keeper.close()

    async def hear(self, samples: Samples, *, language: str | None) -> AsyncGenerator[Segment]:
        """Yield the segments; the server returns all of them at the end."""
        spoken = language or ("auto" if self.language == MANY else self.language)
        async with self._keeper.turn() as server:
            answer = await server.ask(samples, spoken)
        heard_in = language or answer.get("detected_language_code")
        for part in answer["segments"]:
            yield Segment(
                start=part["start"], end=part["end"], text=part["text"].strip(),
                language=heard_in, avg_logprob=part.get("avg_logprob"),
                no_speech_prob=part.get("no_speech_prob"),
            )  # fmt: skip


def found(binary: Path | None) -> str:
    """The program. Raises `EngineFailed` where there is none."""
    path = shutil.which(binary or "whisper-server")
    if path is None:
        raise EngineFailed(
            f"There is no {binary or 'whisper-server on PATH'}: compile whisper.cpp and name its"
            " server in SPEECH_WHISPER_SERVER."
        )
    return path


class ServerProcess:
    """One process of whisper.cpp's server."""

    def __init__(self, name: str, child: Child) -> None:
        self._name, self.child, self._url = name, child, ""
        self._http = httpx2.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False)

    @classmethod
    async def start(cls, name: str, binary: str, model: Path, threads: int) -> Self:
        """Raises `EngineFailed` when it does not hear a second of silence."""
        child = await Child.spawn(
            binary, "--model", str(model), "--host", HOST, "--port", "0",
            "--threads", str(threads), "--suppress-nst",
            streams=Streams(stdout=DEVNULL), env=engine_environment(),
            new_group=False, with_parent=True,
        )  # fmt: skip
        server = cls(name, child)
        try:
            await server._answers()
            await server.ask(np.zeros(HEARING_RATE, np.float32), "en")
        except (asyncio.CancelledError, EngineFailed):
            await server.end()
            raise
        return server

    async def end(self) -> None:
        await self._http.aclose()
        await self.child.stop(KILL)

    async def ask(self, samples: Samples, language: str) -> dict[str, Any]:
        """Its answer in OpenAI's form `verbose_json`. Raises `EngineFailed`."""
        body = io.BytesIO()
        soundfile.write(body, samples, HEARING_RATE, format="WAV", subtype="PCM_16")
        asked = {
            "response_format": "verbose_json",
            "temperature": "0.0",
            "language": language,
            "audio_ctx": str(context_for(len(samples) / HEARING_RATE)),
        }
        try:
            answer = await self._http.post(
                f"{self._url}/inference",
                data=asked,
                files={"file": ("speech.wav", body.getvalue(), "audio/wav")},
            )
            answer.raise_for_status()
            told: dict[str, Any] = answer.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise EngineFailed(f"The whisper-server of {self._name} failed: {error!r}.") from error
        return told

    async def _answers(self) -> None:
        """Wait until it listens, which is before its model is loaded, and then until that is."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_SECONDS
        while loop.time() < deadline and self.child.running:
            if (port := port_of(self.child.pid)) is not None:
                self._url = f"http://{HOST}:{port}"
                with suppress(httpx2.TransportError):
                    if (await self._http.get(f"{self._url}/health")).status_code == 200:
                        return
            await asyncio.sleep(0.05)
        raise EngineFailed(f"The whisper-server of {self._name} did not start; see the log.")


def context_for(seconds: float) -> int:
    """Frames that the encoder needs for so much audio and some silence; its cost grows by them."""
    needed = 64 * -(-int(seconds * FRAMES_A_SECOND + 128) // 64)
    return min(WHOLE_CONTEXT, max(LEAST_CONTEXT, needed))


def port_of(pid: int) -> int | None:
    """Return the port on which a process listens; None before it listens.

    The server uses a free port of the kernel and does not report it. A port selected in advance
    could be in use by then; whisper.cpp would share it without an error.
    """
    with suppress(psutil.Error):
        for end in psutil.Process(pid).net_connections("tcp4"):
            if end.status == psutil.CONN_LISTEN:
                return int(end.laddr.port)
    return None
