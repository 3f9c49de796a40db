"""The peer: a plain pipeline of pipecat with the same engines, `plain PORT STT TTS LLM KEY_FILE`.

Its own services for OpenAI's API, its own voice and turn detection, its own sentences; no agent, no
runs, no metrics, no admission. Sound is binary messages, as ours. From outside of the pipeline it
is watched when a turn is asked and where its time goes, by the same moments as ours.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import uvicorn
from loguru import logger
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADParams
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    Frame,
    InputAudioRawFrame,
    LLMContextFrame,
    LLMTextFrame,
    OutputAudioRawFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.serializers.base_serializer import FrameSerializer
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.openai.stt import OpenAISTTService
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport
from pipecat.turns.user_stop import TurnAnalyzerUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from hearth.service.settings import read_key
from pipecatapp.voice.stages import Stages

HEARD_RATE, SPOKEN_RATE = 16_000, 24_000
STOP_SECONDS = 0.2
PROMPT = "You are a helpful assistant."


class Raw(FrameSerializer):
    """Samples as they are."""

    async def serialize(self, frame: Frame) -> str | bytes | None:
        return bytes(frame.audio) if isinstance(frame, OutputAudioRawFrame) else None

    async def deserialize(self, data: str | bytes) -> Frame | None:
        if isinstance(data, str):
            return None
        return InputAudioRawFrame(audio=data, sample_rate=HEARD_RATE, num_channels=1)


class Watch(BaseObserver):
    """Tells that the model is asked, and with the first sound the stages of the turn."""

    def __init__(self, socket: WebSocket) -> None:
        super().__init__()
        self._socket, self._stages = socket, Stages()
        self._seen = set[int]()

    async def on_push_frame(self, data: FramePushed) -> None:
        """Each frame is seen at each step; its first one counts."""
        if data.frame.id in self._seen:
            return
        self._seen.add(data.frame.id)
        match data.frame:
            case VADUserStoppedSpeakingFrame():
                self.mark("silence", earlier=STOP_SECONDS)
                self.mark("stopped")
            case TranscriptionFrame():
                self.mark("heard")
            case LLMContextFrame():
                self.mark("asked")
                await self._socket.send_text(json.dumps({"type": "asked"}))
            case LLMTextFrame():
                self.mark("words")
            case TTSAudioRawFrame():
                self.mark("sound")
            case BotStartedSpeakingFrame():
                await self._spoken()
            case _:
                pass

    def mark(self, moment: str, *, earlier: float = 0.0) -> None:
        self._stages.mark(moment, time.monotonic() - earlier)

    async def clause(self, *_: object) -> None:
        """A sentence goes to what speaks."""
        self.mark("clause")

    async def _spoken(self) -> None:
        self.mark("spoken")
        seconds, self._stages = self._stages.seconds(), Stages()
        if seconds is not None:
            await self._socket.send_text(json.dumps({"type": "turn", "stages": seconds}))


def pipeline(
    transport: FastAPIWebsocketTransport, where: list[str], key: str, watch: Watch
) -> Pipeline:
    """As pipecat's own examples put it together."""
    stt, tts, llm = where
    mouth = OpenAITTSService(
        api_key=key, base_url=f"{tts}/v1",
        settings=OpenAITTSService.Settings(model="tts-1", voice="alloy"),
    )  # fmt: skip
    mouth.add_event_handler("on_tts_request", watch.clause)
    aggregators = LLMContextAggregatorPair(
        LLMContext(),
        user_params=LLMUserAggregatorParams(
            vad_analyzer=SileroVADAnalyzer(params=VADParams(stop_secs=STOP_SECONDS)),
            user_turn_strategies=UserTurnStrategies(
                stop=[TurnAnalyzerUserTurnStopStrategy(turn_analyzer=LocalSmartTurnAnalyzerV3())]
            ),
        ),
    )
    return Pipeline(
        [
            transport.input(),
            OpenAISTTService(
                api_key=key, base_url=f"{stt}/v1",
                settings=OpenAISTTService.Settings(model="whisper-1"),
            ),
            aggregators.user(),
            OpenAILLMService(
                api_key=key, base_url=f"{llm}/v1",
                settings=OpenAILLMService.Settings(
                    model="smollm2", system_instruction=PROMPT, max_tokens=2048
                ),
            ),
            mouth,
            transport.output(),
            aggregators.assistant(),
        ]
    )  # fmt: skip


async def talk(socket: WebSocket) -> None:
    """One conversation."""
    await socket.accept()
    where, key = sys.argv[2:5], await asyncio.to_thread(read_key, Path(sys.argv[5]))
    transport = FastAPIWebsocketTransport(
        socket,
        FastAPIWebsocketParams(
            audio_in_enabled=True, audio_out_enabled=True, add_wav_header=False, serializer=Raw()
        ),
    )
    watch = Watch(socket)
    worker = PipelineWorker(
        pipeline(transport, where, key, watch),
        observers=[watch],
        params=PipelineParams(audio_in_sample_rate=HEARD_RATE, audio_out_sample_rate=SPOKEN_RATE),
    )

    async def gone(*_: Any) -> None:
        await worker.cancel()

    transport.add_event_handler("on_client_disconnected", gone)
    await socket.send_text('{"type": "ready"}')
    runner = WorkerRunner(handle_sigint=False, handle_sigterm=False)
    await runner.add_workers(worker)
    await runner.run()


def healthy(request: Request) -> Response:
    return Response("{}")


if __name__ == "__main__":
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    app = Starlette(routes=[WebSocketRoute("/ws", talk), Route("/health", healthy)])
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
