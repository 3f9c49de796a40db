"""The gate before speech-to-text: audio passes for a while after a wake word, and not while an
answer is played to a microphone without echo cancellation.
"""

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

    With `half_duplex`, for a microphone without echo cancellation, it is silence while the agent
    speaks, too: it would hear itself, and interrupt itself for ever. Wake words are found in all of
    the sound, also then: one of them interrupts the agent.
    """

    def __init__(
        self, line: Line, window: Window, wake_words: WakeWords | None, *, half_duplex: bool
    ) -> None:
        super().__init__()
        self._line, self._window, self._wake_words = line, window, wake_words
        self._half_duplex = half_duplex
        self._opened = False
        self._speaking = False

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        match frame:
            case InputAudioRawFrame():
                if self._wake_words is not None:
                    await self._hear(frame, self._wake_words)
                if self._half_duplex and self._speaking:
                    frame.audio = bytes(len(frame.audio))
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
        if not opened or word is not None:  # the wake word is not part of a question
            frame.audio = bytes(len(frame.audio))
