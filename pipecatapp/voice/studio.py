"""State shared by all voice conversations of a service: the session limit, and the engines."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import httpx2
import structlog
from websockets.asyncio.client import ClientConnection

from hearth.service.settings import trusting
from pipecatapp.voice.manners import Manners
from pipecatapp.voice.messages import Hello, Json, Setup
from pipecatapp.voice.metrics import VoiceMetrics
from pipecatapp.voice.workers import Workers

log = structlog.get_logger()

ASK_SECONDS: Final = 5.0
OPEN: Final = Manners()


class NoSpeech(Exception):
    """Start Hearth with speech (`hearth up --speech`), or check its services: `hearth status`."""


class Studio:
    """Limits the number of conversations and assigns a worker to each; `keeps` states whether their
    transcripts are stored.

    `engines` returns the current addresses of `speech-stt` and `speech-tts`, None for one that is
    not available.
    """

    def __init__(
        self,
        workers: Workers,
        metrics: VoiceMetrics,
        engines: Callable[[], Awaitable[tuple[str | None, str | None]]],
        *,
        key: str,
        ca_file: Path | None,
        most: int,
        keeps: bool = True,
        manners: Manners = OPEN,
        idle_seconds: float = 900.0,
    ) -> None:
        self.metrics, self._workers, self._engines = metrics, workers, engines
        self._key, self.ca_file, self._most = key, ca_file, most
        self.keeps = keeps
        self._manners, self._idle = manners, idle_seconds
        self._sessions = 0

    async def open(self) -> None:
        """Warm a worker up, where there is something to hear and speak with."""
        if self._most and None not in await self._engines():
            await self._workers.open()

    async def close(self) -> None:
        """End every conversation."""
        await self._workers.close()

    def admits(self) -> bool:
        """Whether there is a place for one more conversation; a refusal is counted and logged."""
        if self._sessions < self._most:
            return True
        self.metrics.ended.labels("busy").inc()
        log.warning("voice_refused", reason="every place is taken", places=self._most)
        return False

    async def setup(self, hello: Hello) -> Setup:
        """Return the configuration of a worker for a client. Raises `NoSpeech`."""
        stt, tts = await self._engines()
        if stt is None or tts is None:
            raise NoSpeech("This instance runs without speech: start it with --speech.")
        ca_file = None if self.ca_file is None else str(self.ca_file)
        return Setup(
            stt=stt, tts=tts, key=self._key, ca_file=ca_file,
            half_duplex=not hello.echo_cancelled, voice=hello.voice, offer=hello.offer,
            manners=self._manners, idle_seconds=self._idle,
        )  # fmt: skip

    async def voices(self) -> list[Json]:
        """Return the voices of `speech-tts`, each `{"id", "language"}`; none if it does not list
        them. Raises `NoSpeech`.
        """
        setup = await self.setup(Hello(type="hello"))
        return await self._told(setup.tts, "voices")

    async def languages(self) -> list[str]:
        """Return the language codes of `speech-stt`; none if it does not list them. Raises
        `NoSpeech`."""
        setup = await self.setup(Hello(type="hello"))
        return [str(each["id"]) for each in await self._told(setup.stt, "languages")]

    async def _told(self, service: str, what: str) -> list[Json]:
        """Request the voices or languages of a speech service."""
        tls = trusting(self.ca_file)
        async with httpx2.AsyncClient(timeout=ASK_SECONDS, verify=tls, trust_env=False) as http:
            try:
                answer = await http.get(
                    f"{service}/v1/audio/{what}", headers={"authorization": f"Bearer {self._key}"}
                )
                answer.raise_for_status()
                found: list[Json] = answer.json()[what]
            except (httpx2.HTTPError, ValueError, KeyError) as error:
                log.warning("speech_untold", what=what, reason=repr(error))
                return []
        return found

    @asynccontextmanager
    async def session(self) -> AsyncIterator[tuple[ClientConnection, Callable[[], None]]]:
        """Open one conversation. It counts towards the limit until the yielded function is called;
        cleaning up afterwards does not count. Raises `WorkerFailed`.
        """
        with ExitStack() as place:
            self._count(1)
            place.callback(self._count, -1)
            async with self._workers.session() as worker:
                yield worker, place.close

    def _count(self, change: int) -> None:
        self._sessions += change
        self.metrics.sessions.set(self._sessions)
