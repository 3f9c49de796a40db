"""Texts are plain technical English: none uses a phrase of `words.BANNED`."""

import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.rules import tree, words
from tests.rules.words import Match, Text


class Permitted(NamedTuple):
    """Lines that may contain banned phrases: a glob of files, a regular expression, the reason."""

    files: str
    line: str
    reason: str


STATEMENTS = r"^(- \*\*|\| )\d{3}-\d{2}"
PERMITTED: Final = [
    Permitted("docs/requirements.md", STATEMENTS, "statements of the contract are not reworded"),
    Permitted("docs/reference/proofs.md", STATEMENTS, "the same statements"),
    Permitted("docs/reference/benchmarks.md", "", "descriptions recorded with a measurement"),
]

SENTENCES: Final = {
    "A reader whose reply is whole is asked anew.": "again",
    "The service is told of each request.": "receives, is set to",
    "'x' is no valid name.": "is not a valid …",
    "Mend the file.": "repair, correct",
    "Close the connection of who waits.": "the caller that, the user",
    "Whoever calls it waits.": "every user that, the caller",
    "It works. What was read is kept.": "a noun: the result, the caller",
    "What the command printed": "a noun: the result, the caller",
    "The name stands in the header.": "is in, is below",
    "Each has a folder of its own.": "its own …, a separate …",
}
PLAIN: Final = [
    "There is no such model.", "The key is no longer valid.", "The user who started it sees it.",
    "What do you want to change? It waits.", "With *Who answers* you select it.",
    "The agent reads what you wrote.",
]  # fmt: skip


@pytest.mark.parametrize("sentence", SENTENCES)
def test_banned_phrase_is_found(sentence: str) -> None:
    """A pattern that matches nothing would permit what it was written for."""
    found = [match.instead for match in words.search(Text(Path("x"), 1, sentence))]

    assert found == [SENTENCES[sentence]]


@pytest.mark.parametrize("sentence", PLAIN)
def test_plain_sentence_is_not_reported(sentence: str) -> None:
    """A rule with false alarms is soon ignored."""
    assert list(words.search(Text(Path("x"), 1, sentence))) == []


def test_documentation_is_plain() -> None:
    """Pages, references made of help texts and descriptions, and the changelog are for users."""
    pages = [page for page in tree.markdown() if page.parts[0] in ("docs", "changelog.d")]
    root = [page for page in tree.markdown() if page.parent == Path()]

    assert _reported(words.page(page) for page in [*pages, *root]) == []


def test_messages_are_plain() -> None:
    """A message is read by a person in trouble, once."""
    texts = (text for file in tree.product() for text in words.messages(file))

    assert _reported(texts) == []


@pytest.mark.parametrize("package", tree.PACKAGES)
def test_docstrings_and_comments_are_plain(package: str) -> None:
    """A contributor reads them once, and in the terms of the field."""
    found = [
        match
        for file in tree.python(package)
        for text in words.remarks(file)
        for match in words.search(text)
    ]

    assert found == [], "\n".join(map(str, found))


def test_every_permitted_line_exists() -> None:
    """An exception without a text is one that nobody removed."""
    matches = [match for page in tree.markdown() for match in words.search(words.page(page))]
    unused = [
        entry for entry in PERMITTED if not any(_is_permitted(one, [entry]) for one in matches)
    ]

    assert unused == []


def _reported(texts: Iterable[Text]) -> list[str]:
    """Return a line for each banned phrase that is not permitted."""
    return [
        str(match)
        for text in texts
        for match in words.search(text)
        if not _is_permitted(match, PERMITTED)
    ]


def _is_permitted(match: Match, entries: Iterable[Permitted]) -> bool:
    return any(
        fnmatch(str(match.file), entry.files) and re.search(entry.line, match.line)
        for entry in entries
    )
