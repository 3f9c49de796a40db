"""The golden sentences as sound: the same in each run, so that a gate can be narrow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from piper import PiperVoice, SynthesisConfig

from speech.audio import HEARING_RATE, Samples, resampled
from tests.integration.speech.golden import SENTENCES

MANNERS: Final = ("plain", "quick", "noisy")
"""As the voice speaks; a quarter faster; with the noise of a fan, 15 dB below it."""

NOISE: Final = 10 ** (-15 / 20)
SEED: Final = 5


def golden_sounds(voice: Path, *, once: bool = False) -> Iterator[tuple[str, str, Samples]]:
    """Each sentence in each manner: the manner, the sentence, its sound at `HEARING_RATE`.

    With `once` the first is plain, the second quick, the third noisy, and so on. A voice of Piper
    varies what it says by chance; here that is switched off.
    """
    model, noise = PiperVoice.load(voice), np.random.default_rng(SEED)
    for number, sentence in enumerate(SENTENCES):
        for manner in (MANNERS[number % len(MANNERS)],) if once else MANNERS:
            pace = SynthesisConfig(
                length_scale=0.8 if manner == "quick" else 1.0, noise_scale=0.0, noise_w_scale=0.0
            )
            said = np.concatenate([c.audio_float_array for c in model.synthesize(sentence, pace)])
            sound = resampled(said.astype(np.float32), model.config.sample_rate, HEARING_RATE)
            if manner == "noisy":
                loud = float(np.sqrt(np.mean(sound**2))) * NOISE
                sound = sound + noise.normal(0, loud, len(sound)).astype(np.float32)
            yield manner, sentence, sound
