"""Rules about the text of a page: what should have been rendered or replaced."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pipecatapp.tools.documents.jobs.findings import Finding
from pipecatapp.tools.documents.jobs.lines import Line

MOSTLY: Final = 0.6
"""A document with so much of its text in a monospaced font is not code: its font is that."""

RULES: Final = tuple(
    (rule, re.compile(pattern, flags), message)
    for rule, pattern, flags, message in (
        ("template", r"\{\{.*?(?:\}\}|$)|\{%.*?(?:%\}|$)", 0, "A template was not filled in."),
        ("template", r"\$\{[A-Za-z_][\w.]*\}", 0, "A variable was not filled in."),
        ("markdown", r"\*\*[^\s*][^*]*(?:\*\*|$)|[^\s*]\*\*(?=\s|$)", 0,
         "Markdown for bold text was not rendered."),
        ("markdown", r"^\s*#{1,6}\s+\S.*", 0, "Markdown for a heading was not rendered."),
        ("markdown", r"^\s*\|.*\|.*\|\s*$|\|\s*:?-{3,}.*", 0,
         "A Markdown table was not rendered."),
        ("markdown", r"```\w*|~~~\w*", 0, "A Markdown code block was not rendered."),
        ("markdown", r"(?<!`)`[^`\s][^`]*`(?!`)", 0, "Markdown for code was not rendered."),
        ("markdown", r"!?\[[^\]]+\]\((?:https?:|mailto:|#|\.{0,2}/|[\w./-]+\.\w+\))[^)]*\)?", 0,
         "A Markdown link or picture was not rendered."),
        ("html", r"</?(?:b|i|em|strong|p|br|div|span|table|tr|td|th|ul|ol|li|h[1-6])\s*/?>",
         re.IGNORECASE, "HTML was not rendered."),
        ("unfinished", r"\b(?:TO-?DO|FIX-?ME|TBD|X{3})\b", 0, "The text is not finished."),
        ("unfinished", r"lorem ipsum|\[(?:insert|your|add|company|recipient)\b[^\]]{0,60}\]",
         re.IGNORECASE, "The text is not finished."),
        ("glyph", "[\ufffd]+", 0, "A character could not be decoded."),
    )
)  # fmt: skip
"""Name of the rule, pattern of a line, message. Code is ignored by all except the last two."""
EVERYWHERE: Final = ("unfinished", "glyph")


def check(lines: Sequence[Line]) -> Iterator[Finding]:
    """Yield the findings in the lines of a document. Text in a monospaced font is code, in which
    braces and asterisks are right."""
    size = sum(len(line.text) for line in lines)
    mono = sum(sum(line.mono) for line in lines)
    is_code = size > 0 and mono < MOSTLY * size
    for line in lines:
        yield from _line(line, line.prose() if is_code else line.text)


def _line(line: Line, prose: str) -> Iterator[Finding]:
    for rule, pattern, message in RULES:
        text = line.text if rule in EVERYWHERE else prose
        for match in pattern.finditer(text):
            start, end = match.span()
            yield Finding(rule, line.page, message, match[0], line.box(start, end))
