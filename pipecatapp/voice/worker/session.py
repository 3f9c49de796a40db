"""One conversation: pipecat's pipeline from the microphone to the loudspeaker."""

import asyncio
from pathlib import Path
from typing import Final

import httpx2
import numpy as np
from pipecat.audio.turn.smart_turn.base_smart_turn import SmartTurnParams
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADParams
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport
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
from pipecatapp.voice.messages import HEARD_RATE, SPOKEN_RATE, Setup
from pipecatapp.voice.worker.agent import Agent
from pipecatapp.voice.worker.hearing import Ears
from pipecatapp.voice.worker.line import Line
from pipecatapp.voice.worker.speaking import Mouth
from pipecatapp.voice.worker.wire import Wire

STOP_SECONDS: Final = 0.2
"""Silence after which the voice detector says that somebody stopped speaking."""

TURN_SECONDS: Final = 1.2
"""Silence after which a turn is over although the sentence sounds unfinished."""

IDLE_SECONDS: Final = 900.0
"""A page that was left open is not listened to for ever."""

ENGINE_SECONDS: Final = 30.0


def analyzers() -> tuple[SileroVADAnalyzer, LocalSmartTurnAnalyzerV3]:
    """What hears that somebody speaks, and that a sentence is finished; loading takes a moment."""
    voice = SileroVADAnalyzer(params=VADParams(stop_secs=STOP_SECONDS))
    turn = LocalSmartTurnAnalyzerV3(params=SmartTurnParams(stop_secs=TURN_SECONDS))
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
    line = Line(socket)
    transport = FastAPIWebsocketTransport(
        socket,
        FastAPIWebsocketParams(
            audio_in_enabled=True, audio_out_enabled=True, add_wav_header=False,
            serializer=Wire(line), allowed_origins=[],
        ),
    )  # fmt: skip
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
    async with httpx2.AsyncClient(
        headers={"authorization": f"Bearer {setup.key}"}, timeout=ENGINE_SECONDS, trust_env=False,
        verify=trusting(None if setup.ca_file is None else Path(setup.ca_file)),
    ) as http:  # fmt: skip
        pipeline = Pipeline(
            [
                transport.input(),
                Ears(http, setup.stt, line, STOP_SECONDS),
                aggregators.user(),
                Agent(line),
                Mouth(http, setup.tts, line),
                transport.output(),
            ]
        )
        worker = PipelineWorker(
            pipeline,
            params=PipelineParams(
                audio_in_sample_rate=HEARD_RATE, audio_out_sample_rate=SPOKEN_RATE
            ),
            enable_rtvi=False,
            idle_timeout_secs=IDLE_SECONDS,
        )

        async def gone(*_: object) -> None:
            await worker.cancel()

        transport.add_event_handler("on_client_disconnected", gone)
        await line.tell(type="ready")
        runner = WorkerRunner(handle_sigint=False, handle_sigterm=False)
        await runner.add_workers(worker)
        await runner.run()
