"""The door before the ears: what is said is heard only after a wake word, for a while."""

from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipecatapp.voice.worker.line import Line
from pipecatapp.voice.worker.waking import WakeWords, Window


class Gate(FrameProcessor):
    """Lets sound through while the window is open; else it is silence of the same length.

    Wake words are found in all of the sound, also while the agent speaks: one of them interrupts
    it, for a microphone without echo cancellation, too.
    """

    def __init__(self, line: Line, window: Window, wake_words: WakeWords | None) -> None:
        super().__init__()
        self._line, self._window, self._wake_words = line, window, wake_words
        self._opened = False
        self._speaking = False

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        match frame:
            case InputAudioRawFrame() if self._wake_words is not None:
                await self._hear(frame, self._wake_words)
            case UserStartedSpeakingFrame():
                self._window.hold("person")
            case UserStoppedSpeakingFrame():
                self._window.release("person")
            case BotStartedSpeakingFrame():
                self._speaking = True
                self._window.hold("agent")
            case BotStoppedSpeakingFrame():
                self._speaking = False
                self._window.release("agent")
            case _:
                pass
        await self.push_frame(frame, direction)

    async def _hear(self, frame: InputAudioRawFrame, wake_words: WakeWords) -> None:
        word = wake_words.found(frame.audio)
        if word is not None:
            self._window.open()
            await self._line.tell(type="woken", word=word)
            if self._speaking:
                await self.push_frame(InterruptionFrame())
        opened = self._window.opened
        if self._opened and not opened:
            await self._line.tell(type="asleep")
        self._opened = opened
        if not opened or word is not None:  # the phrase itself is no part of a question
            frame.audio = bytes(len(frame.audio))
