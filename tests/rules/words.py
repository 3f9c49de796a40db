"""The phrases that texts of the repository may not use, and the texts that are searched."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.rules import tree

_PERSONS = (
    "anybody", "anyone", "author", "everybody", "everyone", "nobody", "operator", "people",
    "person", "reader", "somebody", "someone", "those", "user", "users", "visitor",
)  # fmt: skip
_NO_PERSON = "".join(rf"(?<!\b{person} )" for person in _PERSONS)
_START = r"(?:^|[.:;|] |\n\n|(?:^|\n)[#*-]+ )"

BANNED: Final = {
    r"\banew\b": "again",
    r"\bby way of\b": "with, through",
    r"\bmend(?:s|ed|ing)?\b": "repair, correct",
    r"\bof (?:its|their) own\b": "its own …, a separate …",
    r"\b(?:am|are|be|been|being|is|was|were) told\b": "receives, is set to",
    r"(?<!\bthere )\b(?:are|is|was|were) no (?!different\b|longer\b|more\b)": "is not a valid …",
    rf"{_NO_PERSON}\b(?-i:who)\b(?![^.:;|]*\?)": "the caller that, the user",
    r"\bwho(?:ever|mever)\b": "every user that, the caller",
    rf"{_START}(?-i:What|Who) (?!if\b)[^?|]*?(?:[.|:;]|\n\n|$)": "a noun: the result, the caller",
    r"\bwhat (?:hears|speaks|stands)\b": "speech-to-text, text-to-speech, the text",
    r"\bstands? (?:above|at|behind|below|beside|here|in|on|there|under)\b": "is in, is below",
    r"\bthe one of\b": "that of",
    r"\bthe same of\b": "the same for",
    r"\bsigns? of life\b": "keep-alive comment",
    r"\b(?:errands?|house keys?|made keys?|manners|people's keys|the eyes)\b": "see the glossary",
    r"\bplays? a role\b": "is bound to",
    r"\bshown the way\b": "is redirected",
}
"""Regular expression, whose case is ignored -> what to write instead."""

_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")


@dataclass(frozen=True)
class Text:
    """A text, its file and the number of its first line."""

    file: Path
    line: int
    text: str


@dataclass(frozen=True)
class Match:
    """A banned phrase in a file; `line` is the line of the text that contains it."""

    file: Path
    number: int
    line: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.line.strip()} [write: {self.instead}]"


def search(text: Text) -> Iterator[Match]:
    """Yield the banned phrases of a text."""
    for phrase, instead in BANNED.items():
        for found in re.finditer(phrase, text.text, re.IGNORECASE):
            start = found.end() - len(found[0].lstrip(" .:;|\n#*-"))
            number = text.text.count("\n", 0, start)
            yield Match(text.file, text.line + number, text.text.splitlines()[number], instead)


def page(file: Path) -> Text:
    """Return the prose of a Markdown page, without blocks of code and inline code."""
    text = _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), tree.text(file))
    return Text(file, 1, _CODE.sub("`…`", text))


def messages(file: Path) -> Iterator[Text]:
    """Yield the string literals with a blank, except docstrings: messages and descriptions."""
    module = ast.parse(tree.text(file))
    docstrings = {id(text) for text in _docstrings(module)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            text = node.value
            if isinstance(text, str) and " " in text:
                yield Text(file, node.lineno, text)


def remarks(file: Path) -> Iterator[Text]:
    """Yield the docstrings of a module, its classes, functions and attributes, and comments."""
    source = tree.text(file)
    for node in _docstrings(ast.parse(source)):
        yield Text(file, node.lineno, str(node.value))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(file, token.start[0], token.string.lstrip("# "))


def _docstrings(module: ast.Module) -> list[ast.Constant]:
    return [
        node.value
        for node in ast.walk(module)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
