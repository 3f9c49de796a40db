"""A text that is still being written, cut into what can be spoken."""

import pytest

from pipecatapp.voice.clauses import LONGEST, Clauses


def spoken(*pieces: str) -> list[str]:
    """What is spoken when the text comes in these pieces."""
    clauses = Clauses()
    found = [clause for piece in pieces for clause in clauses.feed(piece)]
    return [*found, *clauses.flush()]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Yes, it is open. Come in.", ["Yes,", "it is open.", "Come in."]),
        ("It is open until eight o'clock in the evening. Bye.",
         ["It is open until eight o'clock", "in the evening.", "Bye."]),
        ("Paris.", ["Paris."]),
        ("It costs 3.50 euros, or 1,000 yen. Good?", ["It costs 3.50 euros,",
                                                      "or 1,000 yen.", "Good?"]),
        ("**Bold** and `code`, # here.\n\n```\nx = 1\n```\nDone.", ["Bold and code ,", "here.",
                                                                "Done."]),
        (" … \n", []),
    ],
)  # fmt: skip
def test_first_piece_is_short_and_the_others_are_sentences(text: str, pieces: list[str]) -> None:
    """The first sound is what people wait for; after it, whole sentences sound better."""
    assert spoken(text) == pieces


def test_text_is_cut_alike_however_it_comes() -> None:
    """A model sends words, halves of words, or all at once."""
    text = "Well, the library opens at nine. It closes at six, I think! Anything else?"

    assert spoken(*text) == spoken(text) == spoken(*(f"{word} " for word in text.split()))


def test_piece_is_given_as_soon_as_it_is_whole() -> None:
    """Waiting for the next word would be heard as a pause."""
    clauses = Clauses()

    assert list(clauses.feed("Yes, ")) == ["Yes,"]
    assert list(clauses.feed("come in")) == []
    assert list(clauses.feed(". Sit")) == ["come in."]


def test_sentence_without_an_end_is_spoken_in_parts() -> None:
    """A list without full stops must not be silence for a minute."""
    pieces = spoken("and " * 500)

    assert max(map(len, pieces)) <= LONGEST
    assert " ".join(pieces).split() == ["and"] * 500
