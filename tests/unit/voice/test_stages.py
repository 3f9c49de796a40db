"""Where the time of a turn went."""

import pytest

from pipecatapp.voice.stages import MOMENTS, STAGES, Stages


def test_stages_add_up_to_the_time_from_voice_to_voice() -> None:
    """A breakdown that leaves something out hides what is slow."""
    stages = Stages()
    for number, moment in enumerate(MOMENTS):
        stages.mark(moment, 10 + number**2)
    seconds = stages.seconds()

    assert seconds is not None
    assert tuple(seconds) == STAGES
    assert sum(seconds.values()) == pytest.approx((len(MOMENTS) - 1) ** 2)


def test_who_goes_on_speaking_falls_silent_again() -> None:
    """A turn begins with its last silence; what was said of it later counts once."""
    stages = Stages()
    for moment, at in [("silence", 1), ("stopped", 1.2), ("heard", 1.5), ("silence", 4),
                       ("stopped", 4.2), ("heard", 4.5), ("asked", 5), ("words", 6), ("words", 7),
                       ("clause", 7), ("sound", 8), ("sound", 9), ("spoken", 8.5)]:  # fmt: skip
        stages.mark(moment, at)
    seconds = stages.seconds()

    assert seconds is not None
    assert sum(seconds.values()) == pytest.approx(4.5)
    assert seconds["model"] == 1


def test_typed_turn_has_no_time_from_voice_to_voice() -> None:
    """Nobody fell silent, so there is nothing to measure from."""
    stages = Stages()
    for moment in MOMENTS[3:]:
        stages.mark(moment, 1.0)

    assert stages.seconds() is None


def test_sound_of_the_answer_before_does_not_count_for_this_turn() -> None:
    """Its last pieces come while the next question is asked; it would seem to take no time."""
    stages = Stages()
    stages.mark("sound", 0.5)
    for at, moment in enumerate(MOMENTS, 1):
        stages.mark(moment, float(at))

    assert stages.seconds() == dict.fromkeys(STAGES, 1.0)
