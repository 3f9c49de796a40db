"""Repair JSON that does not parse."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from pipecatapp.tools.fix.edits import CannotRepair, Edits, cut, unfence

REPAIRS: Final = 1000
"""Changes of one text: a dictionary as Python prints it has one for each string."""
STARTS: Final = 5
"""Brackets of a text that are tried as the beginning of the JSON."""
WORDS: Final = ("json", "json5", "jsonc", "javascript", "js", "python", "")
"""Words after a fence with JSON."""
COMMENT: Final = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
SINGLE_QUOTED: Final = re.compile(r"'((?:[^'\\\n]|\\.)*)'")
CURLY_QUOTED: Final = re.compile('[\u201c\u201d]([^\u201c\u201d"\\\\\n]*)[\u201c\u201d]')
CONSTANT: Final = re.compile(r"(None|True|False|undefined)\b")
CONSTANTS: Final = {"None": "null", "True": "true", "False": "false", "undefined": "null"}
BARE_KEY: Final = re.compile(r"[\w$-]+(?=\s*:)")
STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
NO_NUMBER: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(NaN|-?Infinity)')
CLOSED_BY: Final = {"{": "}", "[": "]"}
ENDED: Final = "the text ended early: "
"""The beginning of the reason of a repair after which the last value may be incomplete."""

Repair = tuple[str, str] | None
"""The changed text and the reason; None if it is not clear what was meant."""


def repaired_json(text: str) -> str | None:
    """Return the text with as little changed as makes it parse as JSON.

    None if it parses already, or if it is not clear what was meant.
    """
    edits = Edits(text)
    try:
        repair_value(edits)
    except CannotRepair:
        return None
    return edits.text if edits.changes else None


def repair_json(text: str) -> tuple[Edits, Any]:
    """Repair a text that should be JSON (RFC 8259), and return it with its value.

    A fence and prose around the JSON are removed. Raises `CannotRepair`.
    """
    failure: CannotRepair | None = None
    for attempt in _extents(text):
        edits = Edits(text)
        try:
            attempt(edits)
            value = repair_value(edits)
            _without_constants(edits)
            return edits, json.loads(edits.text) if edits.changes else value
        except CannotRepair as error:
            failure = failure or error
    raise failure or CannotRepair("The text has no JSON")


def repair_value(edits: Edits) -> Any:
    """Repair a text that has nothing but JSON, and return its value; raises `CannotRepair`."""
    for _ in range(REPAIRS):
        try:
            return json.loads(edits.text)
        except json.JSONDecodeError as error:
            changed = _changed(edits.text, error)
            if changed is None or changed[0] == edits.text:
                raise CannotRepair(error.msg, edits.line_at(error.pos)) from error
            edits.become(*changed)
        except RecursionError as error:
            raise CannotRepair("It is nested too deeply") from error
    raise CannotRepair(f"It needs more than {REPAIRS} changes")


def _without_constants(edits: Edits) -> None:
    """Replace NaN and Infinity, which Python accepts and JSON has not, by null."""
    offset = 0
    while found := NO_NUMBER.search(edits.text, offset):
        offset = found.end()
        if found[1]:
            edits.replace(found.start(), offset, "null", f"{found[1]} is not valid in JSON")
            offset = found.start() + len("null")


def _extents(text: str) -> Iterator[Callable[[Edits], object]]:
    """Yield ways to find the JSON of a text: all of it, a fenced block, or between prose."""
    start = text.lstrip(" \t\r\n\ufeff")[:1]
    if not re.search(r"^(```|~~~)", text, re.MULTILINE) or start in ("{", "[", '"'):
        yield lambda edits: None
        for found in islice(re.finditer(r"[{\[]", text), STARTS):
            for end in (len(text), max(text.rfind("}"), text.rfind("]")) + 1):
                if found.start() < end and _is_prose(text[: found.start()], text[end:]):
                    yield _between(found.start(), end)
    else:
        yield _fenced


def _fenced(edits: Edits) -> None:
    if not unfence(edits, WORDS):
        raise CannotRepair("The text has no fenced block with JSON")


def _between(start: int, end: int) -> Callable[[Edits], object]:
    return lambda edits: cut(edits, start, end, "the text around the JSON removed")


def _is_prose(before: str, after: str) -> bool:
    """Tell whether the text around the JSON is none itself: removing it must lose no data."""
    if after.lstrip()[:1] in tuple(",:\"'"):
        return False
    for text in (before, after):
        for found in islice(re.finditer(r"[{\[]", text), STARTS):
            try:
                json.JSONDecoder().raw_decode(text, found.start())
            except (ValueError, RecursionError):
                continue
            return False
    return True


def _changed(text: str, error: json.JSONDecodeError) -> Repair:
    """Change the place of an error, so that parsing gets further."""
    at, message = error.pos, error.msg
    for beginning, change in CHANGES.items():
        if message.startswith(beginning):
            return change(text, at)
    rest = text[at:]
    if comment := COMMENT.match(rest):
        return f"{text[:at]}{rest[comment.end() :]}", "comment removed"
    if not rest.strip():
        return _ended(text, at, message)
    if message.startswith("Expecting ':'"):
        return _with_colon(text, at)
    return _separated(text, at) if message.startswith("Expecting ','") else _value(text, at)


def _ended(text: str, at: int, message: str) -> Repair:
    """Add a missing value and the missing brackets to a text that has ended early."""
    before = text[:at].rstrip()
    if not before:
        return None
    space = text[len(before) :]
    if message.startswith("Expecting ':'"):
        return f"{before}: null{space}", f"{ENDED}a value is missing"
    if before.endswith(":"):
        return f"{before} null{space}", f"{ENDED}a value is missing"
    missing = closing(before)
    return f"{before.removesuffix(',')}{missing}{space}", f"{ENDED}{missing} added"


def _without_rest(text: str, at: int) -> Repair:
    """Remove brackets, semicolons and comments after the end of the value."""
    rest = COMMENT.sub("", text[at:])
    if rest.strip(" \t\r\n]};"):
        return None
    return f"{text[:at].rstrip()}\n", "brackets or comments after the end removed"


def _last_string_closed(text: str, at: int) -> Repair:
    """Close the string that begins here, if it is in the last line."""
    text = text.rstrip("\r\n")
    if "\n" in text[at:]:
        return None
    incomplete = re.search(r"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3})?)$", text[at:])
    if incomplete:
        return f'{text[: at + incomplete.start(1)]}"', f"{ENDED}an incomplete escape removed"
    text = text.rstrip()
    return _string_closed(text, len(text), "" if text[-1] in "]}" else ENDED)


def _incomplete_escape(text: str, at: int) -> Repair:
    """Remove an escape that is cut off at the end of the text."""
    start = text.rfind("\\", 0, at + 1)
    if re.fullmatch(r"\\u[0-9a-fA-F]{0,3}\s*", text[start:]):
        return f'{text[:start]}"', f"{ENDED}an incomplete escape removed"
    return None


def _with_colon(text: str, at: int) -> Repair:
    """Insert a colon, or put it in the place of `=` or `=>`."""
    before, rest = text[:at].rstrip(), text[at:]
    if rest[0] == "=":
        return f"{text[:at]}:{rest.removeprefix('=').removeprefix('>')}", "= becomes :"
    return f"{before}:{text[len(before) :]}", "missing colon added"


def _string_closed(text: str, end: int, why: str = "") -> Repair:
    """Close a string at the end of its line, before a comma or closing brackets."""
    line = text[:end].rstrip()
    start = len(line.rstrip(" ,]}"))
    return f'{line[:start]}"{text[start:]}', f"{why}missing quote added"


def _separated(text: str, at: int) -> Repair:
    """Insert a comma, or the bracket that the next one shows to be missing."""
    before, rest = text[:at].rstrip(), text[at:]
    if rest[0] in "]}":
        missing = closing(before)
        if rest[0] not in missing[1:]:
            return None
        return f"{before}{missing[0]}{text[len(before) :]}", "missing bracket added"
    if rest[0].isalpha() and "\n" not in text[len(before) : at]:
        return None  # As in "He said "no" to me": a quote within a string.
    return f"{before},{text[len(before) :]}", "missing comma added"


def _value(text: str, at: int) -> Repair:
    """Replace an invalid value or name, or remove a superfluous comma."""
    before, rest = text[:at].rstrip(), text[at:]
    if rest[0] == "," and rest[1:].lstrip()[:1] in ("]", "}", ","):
        return text[:at] + rest[1:], "superfluous comma removed"
    if before.endswith(",") and rest[0] in "]},":
        return f"{before[:-1]}{text[len(before) :]}", "superfluous comma removed"
    return _quoted(text, at) or _word(text, at)


def _quoted(text: str, at: int) -> Repair:
    """Put a string into double quotes."""
    rest = text[at:]
    if quoted := SINGLE_QUOTED.match(rest):
        inner = re.sub(r'(?<!\\)"', r"\\\"", quoted[1].replace("\\'", "'"))
        return f'{text[:at]}"{inner}"{rest[quoted.end() :]}', "single quotes replaced"
    if quoted := CURLY_QUOTED.match(rest):
        return f'{text[:at]}"{quoted[1]}"{rest[quoted.end() :]}', "curly quotes replaced"
    return None


def _word(text: str, at: int) -> Repair:
    """Quote a key, or replace a constant of another language or one that is cut off."""
    before, rest = text[:at].rstrip(), text[at:]
    if before.endswith(("{", ",")) and (key := BARE_KEY.match(rest)):
        return f'{text[:at]}"{key[0]}"{rest[key.end() :]}', "quotes around a key added"
    if constant := CONSTANT.match(rest):
        new = CONSTANTS[constant[1]]
        return f"{text[:at]}{new}{rest[constant.end() :]}", f"{constant[1]} becomes {new}"
    for name in CONSTANTS.values():
        if name.startswith(rest.rstrip()):
            return f"{text[:at]}{name}", f"{ENDED}{rest.rstrip()} becomes {name}"
    return None


def closing(text: str) -> str:
    """Return the brackets that close those which are open at the end, the innermost first."""
    opened: list[str] = []
    for letter in STRING.sub("", text):
        if letter in CLOSED_BY:
            opened.append(CLOSED_BY[letter])
        elif opened and letter == opened[-1]:
            opened.pop()
    return "".join(reversed(opened))


CHANGES: Final[dict[str, Callable[[str, int], Repair]]] = {
    "Unexpected UTF-8 BOM": lambda text, _: (text[1:], "byte order mark removed"),
    "Invalid control character": _string_closed,
    "Unterminated string": _last_string_closed,
    "Invalid \\uXXXX escape": _incomplete_escape,
    "Invalid \\escape": lambda text, at: (f"{text[:at]}\\{text[at:]}", "backslash doubled"),
    "Extra data": _without_rest,
}
"""Repairs by the beginning of the parser's message."""
