"""JSON and YAML files that do not parse."""

import difflib
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from pipecatapp.sandbox.tree import open_plain, walk
from pipecatapp.tools.code.fix.problem import DEPTH, FILES, SKIPPED, Candidate

JSON: Final = (".json", ".webmanifest")
YAML_NAMES: Final = (".yaml", ".yml")
LARGEST: Final = 128 << 10
"""Bytes of a file that is read: parsing YAML takes seconds for a megabyte."""
REPAIRS: Final = 20
"""Changes of one JSON file."""
LINES: Final = 3
"""Lines, up to that of an error of YAML, that may have the mistake."""
COMMENT: Final = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
SINGLE_QUOTED: Final = re.compile(r"'((?:[^'\\\n]|\\.)*)'")
CONSTANT: Final = re.compile(r"(None|True|False|undefined)\b")
CONSTANTS: Final = {"None": "null", "True": "true", "False": "false", "undefined": "null"}
BARE_KEY: Final = re.compile(r"[^\W\d][\w$-]*(?=\s*:)")
STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"?')
CLOSED_BY: Final = {"{": "}", "[": "]"}
ENTRY: Final = re.compile(r"^(\s*(?:- +)*[\w.-]+):( *)(.*?)(\r?\n?)$")
ITEM: Final = re.compile(r"^(\s*- +)(.*?)(\r?\n?)$")
NAME_ONLY: Final = re.compile(r"^(\s*(?:- +)*[\w.-]+)(\r?\n?)$")


def data(root: Path) -> Iterator[tuple[str, Candidate]]:
    """Yield repairs of all JSON and YAML files below a folder that do not parse.

    Each is the path and the whole file afterwards. A repaired file parses; whether it says what was
    meant is for a test to show. Raises `OSError`, and `TooLarge` for a folder that has too much.
    """
    entries = (one.path for one in walk(root, depth=DEPTH, skip=SKIPPED) if one.is_file)
    names = (path for path in entries if path.endswith((*JSON, *YAML_NAMES)))
    for path in islice(names, FILES):
        text = _read(root, path)
        if text is None:
            continue
        if path.endswith(JSON):
            if (repaired := repaired_json(text)) is not None:
                yield path, Candidate("json", _about(text, repaired), repaired)
        else:
            for repaired in repaired_yaml(text):
                yield path, Candidate("yaml", _about(text, repaired), repaired)


def _read(root: Path, path: str) -> str | None:
    """Return a file as text; None for one that is too large or not UTF-8."""
    with os.fdopen(open_plain(root, path), "rb") as stream:
        content = stream.read(LARGEST + 1)
    try:
        return content.decode() if len(content) <= LARGEST else None
    except UnicodeDecodeError:
        return None


def _about(before: str, after: str) -> str:
    """Describe the first line that changed, and say how many others did."""
    old, new = before.splitlines(), after.splitlines()
    parts = [
        part
        for part in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if part[0] != "equal"
    ]
    if not parts:
        return "the end of the file or its byte order mark"
    _, start, end, first, last = parts[0]
    text = f"line {start + 1}: {_shown(old[start:end])} becomes {_shown(new[first:last])}"
    others = sum(max(part[2] - part[1], part[4] - part[3]) for part in parts[1:])
    return f"{text}, and {others} more" if others else text


def _shown(lines: list[str]) -> str:
    return repr(" ".join(line.strip() for line in lines))


def repaired_json(text: str) -> str | None:
    """Return the text with as little changed as makes it parse as JSON (RFC 8259).

    None if it parses already, or if it is not clear what was meant.
    """
    now = text
    for _ in range(REPAIRS):
        try:
            json.loads(now)
        except json.JSONDecodeError as error:
            changed = _json_changed(now, error)
            if changed is None or changed == now:
                return None
            now = changed
        except RecursionError:
            return None
        else:
            return now if now != text else None
    return None


def _json_changed(text: str, error: json.JSONDecodeError) -> str | None:
    """Change the place of an error, so that parsing gets further."""
    at, what = error.pos, error.msg
    for message, change in CHANGES.items():
        if what.startswith(message):
            return change(text, at)
    before, rest = text[:at].rstrip(), text[at:]
    if comment := COMMENT.match(rest):
        return f"{text[:at]}{rest[comment.end() :]}"
    if not rest.strip():
        return f"{before.removesuffix(',')}{_closing(before)}{text[len(before) :]}"
    if what.startswith("Expecting ':'"):
        return _with_colon(text, at)
    return _separated(text, at) if what.startswith("Expecting ','") else _value(text, at)


def _without_rest(text: str, at: int) -> str | None:
    """Remove brackets and comments after the end of the value."""
    rest = COMMENT.sub("", text[at:])
    return None if rest.strip(" \t\r\n]}") else f"{text[:at].rstrip()}\n"


def _last_string_closed(text: str, at: int) -> str | None:
    """Close the string that begins here, if it is in the last line."""
    text = text.rstrip()
    return None if "\n" in text[at:] else _string_closed(text, len(text))


def _with_colon(text: str, at: int) -> str:
    """Insert a colon, or put it in the place of `=` or `=>`."""
    before, rest = text[:at].rstrip(), text[at:]
    if rest[0] == "=":
        return f"{text[:at]}:{rest.removeprefix('=').removeprefix('>')}"
    return f"{before}:{text[len(before) :]}"


def _string_closed(text: str, end: int) -> str:
    """Close a string at the end of its line, before a comma or closing brackets."""
    line = text[:end].rstrip()
    start = len(line.rstrip(" ,]}"))
    return f'{line[:start]}"{text[start:]}'


def _separated(text: str, at: int) -> str | None:
    """Insert a comma, or the bracket that the next one shows to be missing."""
    before, rest = text[:at].rstrip(), text[at:]
    if rest[0] in "]}":
        missing = _closing(before)
        return f"{before}{missing[0]}{text[len(before) :]}" if rest[0] in missing[1:] else None
    if rest[0].isalpha() and "\n" not in text[len(before) : at]:
        return None  # As in "He said "no" to me": a quote within a string.
    return f"{before},{text[len(before) :]}"


def _value(text: str, at: int) -> str | None:
    """Replace an invalid value or name, or remove a superfluous comma."""
    before, rest = text[:at].rstrip(), text[at:]
    if rest[0] == "," and rest[1:].lstrip()[:1] in ("]", "}", ","):
        return text[:at] + rest[1:]
    if before.endswith(",") and rest[0] in "]},":
        return f"{before[:-1]}{text[len(before) :]}"
    if quoted := SINGLE_QUOTED.match(rest):
        inner = re.sub(r'(?<!\\)"', r"\\\"", quoted[1].replace("\\'", "'"))
        return f'{text[:at]}"{inner}"{rest[quoted.end() :]}'
    if constant := CONSTANT.match(rest):
        return f"{text[:at]}{CONSTANTS[constant[1]]}{rest[constant.end() :]}"
    if before.endswith(("{", ",")) and (key := BARE_KEY.match(rest)):
        return f'{text[:at]}"{key[0]}"{rest[key.end() :]}'
    return None


def _closing(text: str) -> str:
    """Return the brackets that close those which are open at the end, the innermost first."""
    opened: list[str] = []
    for letter in STRING.sub("", text):
        if letter in CLOSED_BY:
            opened.append(CLOSED_BY[letter])
        elif opened and letter == opened[-1]:
            opened.pop()
    return "".join(reversed(opened))


CHANGES: Final[dict[str, Callable[[str, int], str | None]]] = {
    "Unexpected UTF-8 BOM": lambda text, _: text[1:],
    "Invalid control character": _string_closed,
    "Unterminated string": _last_string_closed,
    "Invalid \\escape": lambda text, at: f"{text[:at]}\\{text[at:]}",
    "Extra data": _without_rest,
}
"""Repairs by the beginning of the parser's message."""


def repaired_yaml(text: str) -> Iterator[str]:
    """Yield texts with one line changed, or all tabs of indentation, that parse as YAML.

    Nothing for a text that parses already.
    """
    places = _yaml_error(text)
    if not places:
        return
    lines = text.splitlines(keepends=True)
    tabs = "".join(
        re.sub(r"^[ \t]+", lambda found: found[0].expandtabs(2), one) for one in lines
    )  # fmt: skip
    found = [tabs] if "\t" in text else []
    changed = dict.fromkeys(at for place in places for at in range(place, place - LINES, -1))
    for at in (at for at in changed if 0 <= at < len(lines)):
        found += ["".join((*lines[:at], new, *lines[at + 1 :])) for new in _yaml_lines(lines, at)]
    for candidate in dict.fromkeys(found):
        if candidate != text and not _yaml_error(candidate):
            yield candidate


def _yaml_error(text: str) -> list[int]:
    """Return the lines, from 0, at which YAML cannot be read, and where that part began."""
    try:
        for _ in YAML(typ="safe", pure=True).parse(io.StringIO(text)):
            pass
    except MarkedYAMLError as error:
        marks = (error.problem_mark, error.context_mark)
        return [mark.line for mark in marks if mark is not None] or [0]
    except (YAMLError, RecursionError):
        return [0]
    return []


def _yaml_lines(lines: list[str], at: int) -> Iterator[str]:
    """Yield what a line may have been meant to be."""
    old = lines[at]
    if entry := ENTRY.match(old):
        name, space, value, end = entry.groups()
        yield from (f"{name}: {new}{end}" for new in _scalars(value))
        if value and not space:
            yield f"{name}: {value}{end}"
    elif item := ITEM.match(old):
        yield from (f"{item[1]}{new}{item[3]}" for new in _scalars(item[2]))
    if name_only := NAME_ONLY.match(old):
        yield f"{name_only[1]}:{name_only[2]}"
    around = [one for one in (*reversed(lines[:at]), *lines[at + 1 : at + 2]) if one.strip()]
    for other in around[:2]:
        indent = other[: len(other) - len(other.lstrip())]
        yield indent + old.lstrip(" ")
        yield f"{indent}  {old.lstrip(' ')}"


def _scalars(value: str) -> Iterator[str]:
    """Yield a value with its quote closed, or in quotes."""
    for quote in ('"', "'"):
        if value.startswith(quote) and value.count(quote) == 1:
            yield f"{value}{quote}"
            return
    if value:
        yield json.dumps(value, ensure_ascii=False)
