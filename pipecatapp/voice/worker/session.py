"""One conversation: pipecat's pipeline from the microphone to the loudspeaker."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import httpx2
import numpy as np
import numpy.typing as npt
from pipecat.audio.turn.base_turn_analyzer import EndOfTurnState
from pipecat.audio.turn.smart_turn.base_smart_turn import BaseSmartTurn, SmartTurnParams
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADParams
from pipecat.metrics.metrics import MetricsData
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.audio.vad_processor import VADProcessor
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.transports.base_transport import BaseTransport
from pipecat.turns.user_start import (
    TranscriptionUserTurnStartStrategy,
    VADUserTurnStartStrategy,
)
from pipecat.turns.user_stop import TurnAnalyzerUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner
from starlette.websockets import WebSocket

from hearth.service.settings import trusting
from pipecatapp.voice.manners import Manners
from pipecatapp.voice.messages import HEARD_RATE, Setup
from pipecatapp.voice.worker.agent import Agent, Ending
from pipecatapp.voice.worker.calling import InterruptionReporter, read, sounding
from pipecatapp.voice.worker.gate import Gate
from pipecatapp.voice.worker.hearing import Ears
from pipecatapp.voice.worker.line import Line
from pipecatapp.voice.worker.speaking import Mouth
from pipecatapp.voice.worker.waking import WakeWords, Window, wake_words_of
from pipecatapp.voice.worker.wire import Wire

STOP_SECONDS: Final = 0.2
"""Seconds of silence after which the voice detector reports the end of speech."""

TURN_SECONDS: Final = 1.2
"""Silence after which a turn is over although the sentence sounds unfinished."""

ENGINE_SECONDS: Final = 30.0


@functools.cache
def smart_turn() -> LocalSmartTurnAnalyzerV3:
    """Return the model that detects a finished sentence, shared by all conversations: it uses 37
    MB."""
    return LocalSmartTurnAnalyzerV3()


class TurnAnalyzer(BaseSmartTurn):
    """smart-turn for one conversation, which also reports its judgement of each pause."""

    told: Callable[[bool], Awaitable[None]] | None = None

    def _predict_endpoint(self, audio_array: npt.NDArray[np.float32]) -> dict[str, Any]:
        return smart_turn()._predict_endpoint(audio_array)

    async def analyze_end_of_turn(self) -> tuple[EndOfTurnState, MetricsData | None]:
        state, result = await super().analyze_end_of_turn()
        if self.told is not None:
            await self.told(state == EndOfTurnState.COMPLETE)
        return state, result


@dataclass(frozen=True)
class Models:
    """Models that detect speech, the end of a sentence, and a wake word in audio."""

    voice: SileroVADAnalyzer
    turn: TurnAnalyzer
    wake_words: WakeWords | None

    @classmethod
    def load(cls, manners: Manners) -> Self:
        """Load the models, which blocks the calling thread for a moment."""
        return cls(
            SileroVADAnalyzer(params=VADParams(stop_secs=STOP_SECONDS)),
            TurnAnalyzer(params=SmartTurnParams(stop_secs=TURN_SECONDS)),
            wake_words_of(manners),
        )


def warm_up() -> None:
    """Load them once and let them work, so that the first person does not wait for the disk."""
    models = Models.load(Manners())
    models.voice.set_sample_rate(HEARD_RATE)
    models.voice.voice_confidence(np.zeros(512, np.int16).tobytes())
    models.turn._predict_endpoint(np.zeros(HEARD_RATE, np.float32))


async def converse(socket: WebSocket, setup: Setup) -> None:
    """Listen and answer until the browser leaves."""
    models = await asyncio.to_thread(Models.load, setup.manners)
    line, window = Line(socket, setup.voice), Window(setup.manners)
    line.on_wake, models.turn.told = window.open, line.judged
    wire = Wire(line)
    async with sounding(socket, setup.offer, wire, line) as transport, engines(setup) as http:
        processors = [
            transport.input(),
            Gate(line, window, models.wake_words, half_duplex=setup.half_duplex),
            *hearing(models, Ears(http, setup.stt, line, STOP_SECONDS)),
            Agent(line, window),
            Mouth(http, setup.tts, line, setup.spoken_rate),
            transport.output(),
            Ending(line),
        ]
        if setup.offer is not None:
            processors.append(InterruptionReporter(line))
        worker = working(processors, setup, line)
        hang_up_on(transport, worker)
        watching = [line.watch_lag()]
        if setup.offer is not None:
            watching.append(read(socket, wire, worker))
        await run(worker, watching)


def hearing(models: Models, ears: FrameProcessor) -> list[FrameProcessor]:
    """Return the processors from audio to turns. The voice detector is first and limits the rate of
    the audio: after speech-to-text it could lag on a busy machine by more than the buffer, and the
    beginning of a sentence would be lost.
    """
    turns = UserTurnStrategies(
        # A late transcript of a busy engine also ends a turn.
        start=[VADUserTurnStartStrategy(), TranscriptionUserTurnStartStrategy()],
        stop=[TurnAnalyzerUserTurnStopStrategy(turn_analyzer=models.turn)],
    )
    aggregators = LLMContextAggregatorPair(
        LLMContext(),
        user_params=LLMUserAggregatorParams(user_turn_strategies=turns, empty_user_turn=None),
    )
    return [VADProcessor(vad_analyzer=models.voice), ears, aggregators.user()]


def engines(setup: Setup) -> httpx2.AsyncClient:
    """Return a client for speech-to-text and text-to-speech."""
    return httpx2.AsyncClient(
        headers={"authorization": f"Bearer {setup.key}"}, timeout=ENGINE_SECONDS, trust_env=False,
        verify=trusting(None if setup.ca_file is None else Path(setup.ca_file)),
    )  # fmt: skip


def working(processors: list[FrameProcessor], setup: Setup, line: Line) -> PipelineWorker:
    """Build the pipeline, which reports when it listens, and when nobody has spoken for long."""
    worker = PipelineWorker(
        Pipeline(processors),
        params=PipelineParams(
            audio_in_sample_rate=HEARD_RATE, audio_out_sample_rate=setup.spoken_rate
        ),
        enable_rtvi=False,
        idle_timeout_secs=setup.idle_seconds,
    )

    async def ready(*_: object) -> None:
        await line.tell(type="ready")
        await line.tell(type="tasks", running=len(asyncio.all_tasks()))

    async def idle(*_: object) -> None:
        await line.tell(type="idle")

    worker.add_event_handler("on_pipeline_started", ready)
    worker.add_event_handler("on_idle_timeout", idle)
    return worker


def hang_up_on(transport: BaseTransport, worker: PipelineWorker) -> None:
    """The conversation ends when the person leaves."""

    async def gone(*_: object) -> None:
        await worker.cancel()

    transport.add_event_handler("on_client_disconnected", gone)


async def run(worker: PipelineWorker, watching: Sequence[Coroutine[None, None, None]]) -> None:
    """Until the conversation ends, and what watches it as long."""
    runner = WorkerRunner(handle_sigint=False, handle_sigterm=False)
    await runner.add_workers(worker)
    tasks = [asyncio.create_task(one) for one in watching]
    try:
        await runner.run()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
