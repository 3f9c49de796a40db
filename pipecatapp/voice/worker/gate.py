"""The door before the ears: what is said is heard only after a wake word, for a while."""

import time
from collections.abc import Sequence

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
from pymicro_wakeword import MicroWakeWord, MicroWakeWordFeatures, Model

from pipecatapp.voice.manners import Manners
from pipecatapp.voice.worker.line import Line


class Window:
    """How long somebody may go on without the wake word. Always open where there is none."""

    def __init__(self, manners: Manners) -> None:
        self.manners = manners
        self._until = 0.0
        self._holders: set[str] = set()

    @property
    def opened(self) -> bool:
        if not self.manners.wake_words:
            return True
        return bool(self._holders) or time.monotonic() < self._until

    def open(self) -> None:
        """From now on for `window_seconds`."""
        self._until = time.monotonic() + self.manners.window_seconds

    def close(self) -> None:
        """Nothing is heard until the next wake word."""
        self._until = 0.0
        self._holders.clear()

    def hold(self, who: str) -> None:
        """Keep it open while this goes on, if it is open."""
        if self.opened:
            self._holders.add(who)

    def release(self, who: str) -> None:
        """That has ended; the time begins anew."""
        if who in self._holders:
            self._holders.remove(who)
            self.open()


class WakeWords:
    """Finds the phrases in sound of `HEARD_RATE`; each is a small network of microWakeWord."""

    def __init__(self, names: Sequence[str]) -> None:
        self._features = MicroWakeWordFeatures()
        self._models = {name: MicroWakeWord.from_builtin(Model(name)) for name in names}

    def found(self, audio: bytes) -> str | None:
        """The phrase that this piece of sound completes."""
        said = None
        for features in self._features.process_streaming(audio):
            for name, model in self._models.items():
                if model.process_streaming(features):
                    said = name
        if said is not None:
            self._models[said].reset()
        return said


def wake_words_of(manners: Manners) -> WakeWords | None:
    """Loads the models; None where there is no wake word."""
    return WakeWords(manners.wake_words) if manners.wake_words else None


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
