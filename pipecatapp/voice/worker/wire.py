"""Frames of pipecat as messages of ours, and back."""

import json
from typing import Any

from openai.types.chat import ChatCompletionUserMessageParam
from pipecat.frames.frames import (
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMMessagesAppendFrame,
    OutputAudioRawFrame,
)
from pipecat.serializers.base_serializer import FrameSerializer

from pipecatapp.voice.messages import HEARD_RATE
from pipecatapp.voice.worker.line import Line


class Wire(FrameSerializer):
    """Sound is binary; an interruption empties what the browser has not played yet."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    async def serialize(self, frame: Frame) -> str | bytes | None:
        match frame:
            case OutputAudioRawFrame():
                return bytes(frame.audio)
            case InterruptionFrame():
                return json.dumps({"type": "interrupted"})
            case _:
                return None

    async def deserialize(self, data: str | bytes) -> Frame | None:
        if isinstance(data, bytes):
            return InputAudioRawFrame(audio=data, sample_rate=HEARD_RATE, num_channels=1)
        message: dict[str, Any] = json.loads(data)
        match message["type"]:
            case "text":
                said: ChatCompletionUserMessageParam = {"role": "user", "content": message["text"]}
                return LLMMessagesAppendFrame(messages=[said], run_llm=True)
            case "wake":
                self._line.on_wake()
                return None
            case "quiet":
                return InterruptionFrame()
            case "choose":
                self._line.voice = message["voice"]
                return None
            case _:
                self._line.answer(message)
                return None
