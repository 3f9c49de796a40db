"""The conversations of satellites: admitted, held and counted as those of browsers are."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

import structlog
from wyoming.error import Error
from wyoming.info import Info
from wyoming.pipeline import RunPipeline

from pipecatapp.application.engine import Listener
from pipecatapp.voice.manners import Manners
from pipecatapp.voice.messages import Hello, Setup
from pipecatapp.voice.satellites.description import description
from pipecatapp.voice.satellites.satellite import Satellite
from pipecatapp.voice.satellites.wire import Wire
from pipecatapp.voice.studio import NoSpeech, Studio
from pipecatapp.voice.talk import CallerLeft, House, Talk, new_conversation, words_of
from pipecatapp.voice.workers import WorkerFailed

log = structlog.get_logger()

AGENT: Final = "agent"

FORGETS_SECONDS: Final = 300.0
"""After this time a satellite starts a new conversation, as in Home Assistant."""


class Guest(House, Protocol):
    """The runs of one conversation."""

    async def forget(self) -> None:
        """End the conversation, and delete its runs if they are not to be kept."""


class Conversations:
    """State that all satellites share: the voice sessions, the runs, the start and end of each."""

    def __init__(self, studio: Studio, house: Callable[[], Guest], manners: Manners) -> None:
        self._studio, self._house, self._manners = studio, house, manners
        self._names: dict[str, tuple[float, str]] = {}

    def satellite(self, wire: Wire, rate: int) -> Satellite:
        """The satellite at the other end of that wire, which plays `rate` samples a second."""
        return Satellite(wire, rate=rate, patience=self._manners.window_seconds)

    async def setup(self) -> Setup:
        """Where the engines are. Raises `NoSpeech`."""
        return await self._studio.setup(Hello(type="hello"))

    async def description(self) -> Info:
        """Return the description of this service; without speech it offers only the agent."""
        try:
            languages, voices = await asyncio.gather(
                self._studio.languages(), self._studio.voices()
            )
        except NoSpeech:
            languages, voices = [], []
        return description(languages, voices)

    async def hold(self, satellite: Satellite, wire: Wire, run: RunPipeline) -> None:
        """Hold a conversation until the satellite is idle; replies `busy` without a free
        session."""
        ended = self._studio.metrics.ended
        if not self._studio.admits():
            await wire.write(Error(text="All speech-to-text slots are in use.", code="busy"))
            return
        try:
            await self._talk(satellite, wire.peer, run)
        except CallerLeft:
            ended.labels("left").inc()
        except (NoSpeech, WorkerFailed) as error:
            ended.labels("broken").inc()
            log.warning("voice_refused", reason=str(error))
            await wire.write(Error(text=str(error), code="voice-worker"))
        else:
            ended.labels("broken").inc()
            await wire.write(
                Error(text="The conversation ended unexpectedly.", code="voice-worker")
            )

    async def _talk(self, satellite: Satellite, peer: str, run: RunPipeline) -> None:
        manners = self._manners
        if run.start_stage.value != "wake":  # the satellite detected its wake word itself
            manners = manners.model_copy(update={"wake_words": ()})
        setup = (await self.setup()).model_copy(
            update={"spoken_rate": satellite.rate, "manners": manners}
        )
        hello = Hello(type="hello", conversation=self._conversation_of(peer))
        house = self._house()
        try:
            async with self._studio.session() as (worker, ended):
                talk = Talk(satellite, worker, house, self._studio.metrics)
                await talk.hold(hello, setup, ended)
        finally:
            await asyncio.shield(house.forget())
            self._names[peer] = (time.monotonic(), str(hello.conversation))

    def _conversation_of(self, peer: str) -> str:
        """Return the recent conversation of a satellite, or a new one."""
        now = time.monotonic()
        self._names = {
            p: kept for p, kept in self._names.items() if now - kept[0] < FORGETS_SECONDS
        }
        return self._names[peer][1] if peer in self._names else new_conversation()

    async def answer(self, text: str, conversation: str) -> str:
        """The agent's answer to a text, as a whole. Raises `talk.RunFailed`."""
        house, listener = self._house(), Listener()
        run = await house.start(text, conversation, listener, AGENT)
        try:
            return "".join([words async for words in words_of(house, run, listener)])
        except asyncio.CancelledError:
            await asyncio.shield(house.cancel(run))
            raise
        finally:
            await asyncio.shield(house.forget())
