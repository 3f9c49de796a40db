"""What engines make up, and where texts are cut."""

import pytest

from speech.words import LONGEST_SENTENCE, said, sentences


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[BLANK_AUDIO]", ""),
        ("(wind blowing)", ""),
        ("*music* Turn on the lights.", "Turn on the lights."),
        ("♪ la la ♪", ""),
        (" What time  is it? ", "What time is it?"),
        ("...", ""),
        ("Thank you.", "Thank you."),
    ],
)
def test_sounds_that_are_described_are_no_words(text: str, words: str) -> None:
    """An agent that answers to the wind is switched off after an hour."""
    assert said(text, loudest=0.5, seconds=1.0) == words


@pytest.mark.parametrize("text", ["Thank you.", "you", "Bye.", "Turn on the lights."])
def test_nothing_was_said_where_nothing_was_heard(text: str) -> None:
    """Models trained on subtitles write thanks for watching under silence."""
    assert said(text, loudest=0.001, seconds=2.0) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Turn it on on on on on on.", "Turn it on."),
        ("I don't know. I don't know. I don't know. I don't know.", "I don't know."),
        ("No, no, no!", "No, no, no!"),
        ("a b a b a b a b a b", "a b"),
    ],
)
def test_loop_of_a_model_that_has_lost_its_place_is_said_once(text: str, words: str) -> None:
    """Whisper repeats itself in noise until its thirty seconds are full."""
    assert said(text, loudest=0.5, seconds=3.0) == words


def test_lone_word_of_silence_is_dropped_only_from_quiet_sound() -> None:
    """Somebody who says thanks is heard, and who whispers a whole sentence, too."""
    assert said("Thank you.", loudest=0.01, seconds=1.0) == ""
    assert said("Thank you for the lights.", loudest=0.01, seconds=1.0) != ""
    assert said("you", loudest=0.5, seconds=0.1) == ""


def test_text_is_cut_where_sentences_end() -> None:
    """The first sentence is heard while the second is made."""
    text = 'It is ten. Dr. Who said "Wait!" Really?\n\nYes … no'

    assert list(sentences(text)) == [
        "It is ten.", "Dr.", 'Who said "Wait!"', "Really?", "Yes …", "no",
    ]  # fmt: skip
    assert list(sentences("3.5 litres of www.example.org")) == ["3.5 litres of www.example.org"]
    assert list(sentences(" … !? \n")) == []


def test_text_without_a_full_stop_is_cut_at_a_space() -> None:
    """A log that is read out must not be one endless breath that nobody can stop."""
    parts = list(sentences("word " * 200))

    assert max(map(len, parts)) <= LONGEST_SENTENCE
    assert " ".join(parts).split() == ["word"] * 200
    assert "".join(sentences("x" * 1000)) == "x" * 1000
