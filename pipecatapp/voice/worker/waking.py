"""Wake words in sound, and the window that they open."""

import time
from collections.abc import Sequence

from pymicro_wakeword import MicroWakeWord, MicroWakeWordFeatures, Model

from pipecatapp.voice.manners import Manners


class Window:
    """The time in which speech is accepted without a wake word; unlimited if there is none."""

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
        """Close the window until the next wake word."""
        self._until = 0.0
        self._holders.clear()

    def hold(self, who: str) -> None:
        """Keep the window open, if it is open, until `release` with the same name."""
        if self.opened:
            self._holders.add(who)

    def release(self, who: str) -> None:
        """Release a holder; the window starts again."""
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
    """Load the models; None without a wake word."""
    return WakeWords(manners.wake_words) if manners.wake_words else None
