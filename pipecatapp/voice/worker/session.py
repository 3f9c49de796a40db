"""One conversation: pipecat's pipeline from the microphone to the loudspeaker."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import httpx2
import numpy as np
from pipecat.audio.turn.base_turn_analyzer import EndOfTurnState
from pipecat.audio.turn.smart_turn.base_smart_turn import SmartTurnParams
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
from pipecat.turns.user_mute import AlwaysUserMuteStrategy
from pipecat.turns.user_start import (
    TranscriptionUserTurnStartStrategy,
    VADUserTurnStartStrategy,
)
from pipecat.turns.user_stop import TurnAnalyzerUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner
from starlette.websockets import WebSocket

from hearth.service.settings import trusting
from pipecatapp.voice.messages import HEARD_RATE, Setup
from pipecatapp.voice.worker.agent import Agent, Ending
from pipecatapp.voice.worker.calling import Told, read, sounding
from pipecatapp.voice.worker.gate import Gate
from pipecatapp.voice.worker.hearing import Ears
from pipecatapp.voice.worker.line import Line
from pipecatapp.voice.worker.speaking import Mouth
from pipecatapp.voice.worker.waking import Window, wake_words_of
from pipecatapp.voice.worker.wire import Wire

STOP_SECONDS: Final = 0.2
"""Silence after which the voice detector says that somebody stopped speaking."""

TURN_SECONDS: Final = 1.2
"""Silence after which a turn is over although the sentence sounds unfinished."""

ENGINE_SECONDS: Final = 30.0


class TurnAnalyzer(LocalSmartTurnAnalyzerV3):
    """smart-turn, which also tells what it found of each pause."""

    told: Callable[[bool], Awaitable[None]] | None = None

    async def analyze_end_of_turn(self) -> tuple[EndOfTurnState, MetricsData | None]:
        state, result = await super().analyze_end_of_turn()
        if self.told is not None:
            await self.told(state == EndOfTurnState.COMPLETE)
        return state, result


def analyzers() -> tuple[SileroVADAnalyzer, TurnAnalyzer]:
    """What hears that somebody speaks, and that a sentence is finished; loading takes a moment."""
    voice = SileroVADAnalyzer(params=VADParams(stop_secs=STOP_SECONDS))
    turn = TurnAnalyzer(params=SmartTurnParams(stop_secs=TURN_SECONDS))
    return voice, turn


def warm_up() -> None:
    """Load both once and let them work, so that the first person does not wait for the disk."""
    voice, turn = analyzers()
    voice.set_sample_rate(HEARD_RATE)
    voice.voice_confidence(np.zeros(512, np.int16).tobytes())
    turn._predict_endpoint(np.zeros(HEARD_RATE, np.float32))


async def converse(socket: WebSocket, setup: Setup) -> None:
    """Listen and answer until the browser leaves."""
    voice, turn = await asyncio.to_thread(analyzers)
    line, window = Line(socket, setup.voice), Window(setup.manners)
    line.on_wake = window.open
    turn.told = line.judged
    wake_words = await asyncio.to_thread(wake_words_of, setup.manners)
    wire = Wire(line)
    aggregators = LLMContextAggregatorPair(
        LLMContext(),
        user_params=LLMUserAggregatorParams(
            vad_analyzer=voice,
            user_turn_strategies=UserTurnStrategies(
                # Words that come late, from a busy engine, are a turn as well.
                start=[VADUserTurnStartStrategy(), TranscriptionUserTurnStartStrategy()],
                stop=[TurnAnalyzerUserTurnStopStrategy(turn_analyzer=turn)],
            ),
            # Without echo cancellation the microphone hears us, and we would interrupt ourselves.
            user_mute_strategies=[AlwaysUserMuteStrategy()] if setup.half_duplex else [],  # type: ignore[no-untyped-call]
            empty_user_turn=None,
        ),
    )
    async with (
        sounding(socket, setup.offer, wire, line) as transport,
        httpx2.AsyncClient(
            headers={"authorization": f"Bearer {setup.key}"}, timeout=ENGINE_SECONDS,
            verify=trusting(None if setup.ca_file is None else Path(setup.ca_file)),
            trust_env=False,
        ) as http,
    ):  # fmt: skip
        pipeline = Pipeline(
            [
                transport.input(),
                Gate(line, window, wake_words),
                Ears(http, setup.stt, line, STOP_SECONDS),
                aggregators.user(),
                Agent(line, window),
                Mouth(http, setup.tts, line, setup.spoken_rate),
                transport.output(),
                Ending(line),
                *([] if setup.offer is None else [Told(line)]),
            ]
        )
        worker = PipelineWorker(
            pipeline,
            params=PipelineParams(
                audio_in_sample_rate=HEARD_RATE, audio_out_sample_rate=setup.spoken_rate
            ),
            enable_rtvi=False,
            idle_timeout_secs=setup.idle_seconds,
        )

        async def gone(*_: object) -> None:
            await worker.cancel()

        async def idle(*_: object) -> None:
            await line.tell(type="idle")

        transport.add_event_handler("on_client_disconnected", gone)
        worker.add_event_handler("on_idle_timeout", idle)
        await line.tell(type="ready")
        runner = WorkerRunner(handle_sigint=False, handle_sigterm=False)
        await runner.add_workers(worker)
        watching = [asyncio.create_task(line.watch_lag())]
        if setup.offer is not None:
            watching.append(asyncio.create_task(read(socket, wire, worker)))
        try:
            await runner.run()
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
