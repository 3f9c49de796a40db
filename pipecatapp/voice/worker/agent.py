"""The agent in the pipeline: a turn is sent to the service, the answer arrives in parts."""

import time

from pipecat.frames.frames import (
    AggregatedTextFrame,
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
    VADUserStartedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.utils.text.base_text_aggregator import TextType

from pipecatapp.voice.clauses import Clauses
from pipecatapp.voice.messages import CANNOT_ANSWER
from pipecatapp.voice.stages import Stages
from pipecatapp.voice.worker.line import AgentFailed, Line
from pipecatapp.voice.worker.waking import Window


class Agent(FrameProcessor):
    """Sends the question, and passes the answer on in parts to be spoken.

    An interruption cancels the processing of the current frame, and so withdraws the question.
    """

    def __init__(self, line: Line, window: Window) -> None:
        super().__init__()
        self._line, self._window = line, window
        self._writing = self._speaking = False
        self._began = 0.0

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        answering = self._writing or self._speaking  # an interruption ends the answer at once
        await super().process_frame(frame, direction)
        match frame:
            case LLMContextFrame():
                await self._answer(last_words(frame))
                return
            case UserStartedSpeakingFrame():
                await self._line.tell(type="voice", speaking=True)
                await self._line.tell(type="state", state="listening")
            case UserStoppedSpeakingFrame():
                await self._line.tell(type="voice", speaking=False)
            case VADUserStartedSpeakingFrame():
                self._began = time.monotonic() - frame.start_secs
            case InterruptionFrame():
                await self._interrupted(answering=answering)
            case BotStartedSpeakingFrame():
                self._speaking = True
                await self._spoken()
            case BotStoppedSpeakingFrame():
                self._speaking = False
                await self._line.tell(type="state", state="listening")
            case _:
                pass
        await self.push_frame(frame, direction)

    async def _interrupted(self, *, answering: bool) -> None:
        if answering:
            heard = self._speaking and self._began
            seconds = time.monotonic() - self._began if heard else None
            await self._line.tell(type="barge_in", seconds=seconds)
        self._began = 0.0
        await self._line.tell(type="state", state="listening")

    async def _answer(self, text: str) -> None:
        if not text:
            return
        if self._window.manners.stops(text):
            self._window.close()
            await self._line.tell(type="dismissed", text=text)
            return
        self._window.hold("answer")
        self._writing = True
        try:
            await self._speak(text)
        finally:
            self._writing = False
            self._window.release("answer")

    async def _speak(self, text: str) -> None:
        self._line.mark("asked")
        await self._line.tell(type="state", state="thinking")
        await self.push_frame(LLMFullResponseStartFrame())
        clauses = Clauses()
        try:
            async for words in self._line.ask(text):
                self._line.mark("words")
                for piece in clauses.feed(words):
                    await self._say(piece)
            for piece in clauses.flush():
                await self._say(piece)
        except AgentFailed:
            await self._say(CANNOT_ANSWER)
        await self.push_frame(LLMFullResponseEndFrame())

    async def _say(self, piece: str) -> None:
        self._line.mark("clause")
        await self.push_frame(AggregatedTextFrame(piece, TextType.SENTENCE))

    async def _spoken(self) -> None:
        self._line.mark("spoken")
        seconds = self._line.stages.seconds()
        self._line.stages = Stages()
        await self._line.tell(type="state", state="speaking")
        if seconds is not None:
            await self._line.tell(type="turn", stages=seconds)


class Ending(FrameProcessor):
    """After the audio output: frames that arrive here have been played."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMFullResponseEndFrame):
            await self._line.tell(type="spoken")
        await self.push_frame(frame, direction)


def last_words(frame: LLMContextFrame) -> str:
    """Return the text of this turn; earlier turns are stored with the conversation."""
    last = frame.context.get_messages()[-1]
    content = last.get("content", "") if isinstance(last, dict) else ""
    return content if isinstance(content, str) else ""
