"""Parse `--input name=value` on the command line according to the workflow's schema."""

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pipecatapp.cli.exit_codes import INVALID, CommandFailed

WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class InvalidInput(CommandFailed):
    """Correct the `--input` that the message names; `hearth plan` lists a workflow's inputs."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=INVALID)


def parse_inputs(given: Iterable[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a run from `name=value` words and the JSON Schema of the workflow's
    inputs.

    A value that begins with `@` is read from that file (`@@` means one `@`). Whole numbers,
    numbers, booleans, lists and objects are written as in JSON; a string is used unchanged.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    inputs: dict[str, Any] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals:
            raise InvalidInput(f"--input {word!r} is not of the form name=value.")
        if name not in properties:
            raise InvalidInput(_unknown(name, properties))
        inputs[name] = typed(name, _text(name, value), properties[name])
    missing = [name for name in schema.get("required", []) if name not in inputs]
    if missing:
        raise InvalidInput(f"Input {missing[0]!r} is missing: add --input {missing[0]}=….")
    return inputs


def parse_answers(given: Iterable[str]) -> dict[str, Any]:
    """Return answers from `node=value` words; a value that begins with `@` is read from that
    file."""
    answers: dict[str, Any] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--answer {word!r} is not of the form node=value.")
        answers[name] = _text(name, value)
    return answers


def typed(name: str, text: str, schema: Mapping[str, Any]) -> Any:
    """Convert `text` to the type of the schema; of several types, the first one that fits."""
    kinds = kinds_of(schema)
    if not kinds or ("string" in kinds and len(kinds) == 1):
        return text
    for kind in kinds:
        found, value = _as_kind(kind, text)
        if found:
            return value
    wanted = " or ".join(kinds)
    raise InvalidInput(f"Input {name!r} is not a valid {wanted}: {text!r}.")


def kinds_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the JSON types that a schema permits; string is last, because every text fits it."""
    kind = schema.get("type", [])
    kinds = [kind] if isinstance(kind, str) else list(kind)
    for option in schema.get("anyOf", []):
        kinds += kinds_of(option)
    return sorted(dict.fromkeys(kinds), key=lambda one: one == "string")


def _as_kind(kind: str, text: str) -> tuple[bool, Any]:
    if kind == "string":
        return True, text
    if kind == "boolean" and text.lower() in WORDS:
        return True, WORDS[text.lower()]
    try:
        value = json.loads(text)
    except ValueError:
        return False, None
    matches = {
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
        "null": value is None,
    }
    return matches.get(kind, False), value


def _text(name: str, value: str) -> str:
    if value.startswith("@@"):
        return value[1:]
    if not value.startswith("@"):
        return value
    path = Path(value[1:])
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"Input {name!r}: {path} cannot be read: {error}.") from error


def _unknown(name: str, properties: Mapping[str, Any]) -> str:
    near = get_close_matches(name, properties, n=1)
    question = f" Did you mean {near[0]!r}?" if near else ""
    known = ", ".join(properties) or "none"
    return f"There is no input {name!r}.{question} Inputs: {known}."
