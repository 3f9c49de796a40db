"""What is listened to: all of a sentence, and nothing of what we say ourselves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
import numpy as np
from pipecat.audio.turn.smart_turn.base_smart_turn import SmartTurnParams
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADParams
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    StartFrame,
)
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from starlette.websockets import WebSocket

from pipecatapp.voice.manners import Manners
from pipecatapp.voice.messages import HEARD_RATE, Setup
from pipecatapp.voice.worker.gate import Gate
from pipecatapp.voice.worker.hearing import Ears
from pipecatapp.voice.worker.line import Line
from pipecatapp.voice.worker.session import Models, TurnAnalyzer, hearing, run, working
from pipecatapp.voice.worker.waking import WakeWords, Window

PIECE = HEARD_RATE // 50
LOUD = 1000
SPEECH = np.full(3 * HEARD_RATE, 2 * LOUD, "<i2").tobytes()
QUIET = bytes(2 * HEARD_RATE)
SETUP = Setup(stt="", tts="", key="k")
WAKE = Manners(wake_words=("alexa",))


class Loudness(SileroVADAnalyzer):
    """Takes everything loud for a voice: what these tests say is no language."""

    def voice_confidence(self, buffer: bytes) -> float:
        return float(np.frombuffer(buffer, "<i2").max() > LOUD)


class Notes(Line):
    """A line to nobody, with what was told on it."""

    def __init__(self) -> None:
        super().__init__(cast("WebSocket", None), "default")
        self.told: list[str] = []
        self.ready = asyncio.Event()

    async def tell(self, **message: Any) -> None:
        self.told.append(message["type"])
        if message["type"] == "ready":
            self.ready.set()


class Recorder(Ears):
    """Keeps what is sent to be transcribed."""

    def __init__(self, http: httpx2.AsyncClient, line: Line) -> None:
        super().__init__(http, "", line, 0.2)
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def _heard(self, wav: bytes) -> str:
        self.heard.put_nowait(wav)
        return ""


class Behind(FrameProcessor):
    """Keeps what comes through a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: asyncio.Queue[Frame] = asyncio.Queue()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, InputAudioRawFrame | InterruptionFrame):
            self.frames.put_nowait(frame)
        await self.push_frame(frame, direction)

    async def sound(self) -> bytes:
        """The next piece of sound."""
        async with asyncio.timeout(60):
            while True:
                frame = await self.frames.get()
                if isinstance(frame, InputAudioRawFrame):
                    return frame.audio


class Started(FrameProcessor):
    """Tells when it has been started."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, StartFrame):
            await self._line.tell(type="started")
        await self.push_frame(frame, direction)


class AlwaysFound(WakeWords):
    """Whatever is said is the wake word."""

    def __init__(self) -> None:
        super().__init__(())

    def found(self, audio: bytes) -> str | None:
        return "alexa"


class FirstFound(AlwaysFound):
    """The first piece is the wake word, and no other."""

    def found(self, audio: bytes) -> str | None:
        word, self.found = "alexa", lambda audio: None  # type: ignore[method-assign]
        return word


@asynccontextmanager
async def running(processors: list[FrameProcessor], line: Line) -> AsyncIterator[PipelineWorker]:
    worker = working(processors, SETUP, line)
    task = asyncio.create_task(run(worker, []))
    try:
        yield worker
    finally:
        await worker.cancel()
        await task


def piece(audio: bytes) -> InputAudioRawFrame:
    return InputAudioRawFrame(audio=audio, sample_rate=HEARD_RATE, num_channels=1)


async def test_all_of_a_sentence_is_heard_however_late_the_voice_detector_is() -> None:
    """On a busy machine it is seconds behind the microphone; what was said before it noticed must
    not be lost. Here it is behind by all there is."""
    sound = QUIET + SPEECH + QUIET
    line, voice = Notes(), Loudness(params=VADParams(stop_secs=0.2, min_volume=0.0))
    models = Models(voice, TurnAnalyzer(params=SmartTurnParams(stop_secs=1.2)), None)
    async with httpx2.AsyncClient() as http:
        ears = Recorder(http, line)
        async with running(hearing(models, ears), line) as worker:
            pieces = (sound[at : at + 2 * PIECE] for at in range(0, len(sound), 2 * PIECE))
            await worker.queue_frames([piece(audio) for audio in pieces])
            async with asyncio.timeout(60):
                heard = await ears.heard.get()

    assert SPEECH in heard


async def test_microphone_that_hears_us_is_silent_while_we_speak() -> None:
    """An echo would be taken for a question, and the answer to it for the next one."""
    line, behind = Notes(), Behind()
    gate = Gate(line, Window(Manners()), None, half_duplex=True)
    async with running([gate, behind], line) as worker:
        heard = []
        for frame in (None, BotStartedSpeakingFrame(), BotStoppedSpeakingFrame()):
            await worker.queue_frames([*([] if frame is None else [frame]), piece(SPEECH)])
            heard.append(await behind.sound())

    assert heard == [SPEECH, bytes(len(SPEECH)), SPEECH]


async def test_wake_word_stops_an_answer_although_the_microphone_hears_it() -> None:
    """It is the only way to interrupt for a satellite without echo cancellation."""
    line, behind = Notes(), Behind()
    gate = Gate(line, Window(WAKE), AlwaysFound(), half_duplex=True)
    async with running([gate, behind], line) as worker:
        await worker.queue_frames([BotStartedSpeakingFrame(), piece(SPEECH)])
        async with asyncio.timeout(60):
            first = await behind.frames.get()

    assert isinstance(first, InterruptionFrame)
    assert "woken" in line.told


async def test_window_closes_by_itself_when_nobody_goes_on() -> None:
    """A word in the morning must not open the room to the house for the whole day."""
    line, behind = Notes(), Behind()
    window = Window(Manners(wake_words=("alexa",), window_seconds=0.2))
    gate = Gate(line, window, FirstFound(), half_duplex=False)
    async with running([gate, behind], line) as worker:
        heard = []
        async with asyncio.timeout(60):
            while line.told.count("asleep") == 0:
                await worker.queue_frame(piece(SPEECH))
                heard.append(await behind.sound())
                await asyncio.sleep(0.01)

    silence = bytes(len(SPEECH))
    assert heard[0] == silence  # The wake word itself.
    assert heard[1] == SPEECH
    assert heard[-1] == silence
    assert not window.opened


async def test_listening_is_told_when_all_of_it_listens() -> None:
    """Who speaks at once after `ready` must be heard."""
    line = Notes()
    first, last = Started(line), Started(line)
    async with running([first, last], line):
        async with asyncio.timeout(60):
            await line.ready.wait()

    assert line.told[:3] == ["started", "started", "ready"]
