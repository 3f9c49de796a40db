"""A form in the terminal, made of a JSON Schema: each input is asked for with its description."""

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from pipecatapp.cli.exit_codes import INVALID, CommandFailed
from pipecatapp.cli.inputs import InvalidInput, kinds_of, typed

Json = dict[str, Any]
Say = Callable[[str], None]
Read = Callable[[], str | None]
"""Returns a typed line without its end, None at the end of the input."""

DEEPEST: Final = 5
"""Objects inside each other that are asked for field by field; deeper ones are typed as JSON."""


class Form:
    """Asks for values until they fit a schema; `say` prints a line, `read` reads one."""

    def __init__(self, schema: Mapping[str, Any], say: Say, read: Read) -> None:
        self._schema, self._say, self._type, self._ended = schema, say, read, False

    def fill(self, given: Mapping[str, Any]) -> Json:
        """Return the given inputs and those that were typed.

        Raises `CommandFailed` if the input ends before a required field has a value.
        """
        return {**given, **self._fields(self._schema, "", given, 0)}

    def _fields(
        self, schema: Mapping[str, Any], above: str, given: Mapping[str, Any], depth: int
    ) -> Json:
        required = schema.get("required", [])
        found: Json = {}
        for name, field in schema.get("properties", {}).items():
            if name not in given:
                value = self._field(f"{above}{name}", field, depth, required=name in required)
                found |= {} if value is None else {name: value}
        return found

    def _field(self, name: str, field: Mapping[str, Any], depth: int, *, required: bool) -> Any:
        """Return a value, None to leave the field out."""
        real = self._resolved(field)
        self._say(f"\n{_title(name, real, required=required)}")
        if about := real.get("description"):
            self._say(f"  {about}")
        if real.get("properties") and depth < DEEPEST:
            if not required and not self._wanted("Fill this in?"):
                return None
            return self._fields(real, f"{name}.", {}, depth + 1)
        if real.get("type") == "array":
            return self._list(name, real, depth, required=required)
        return self._value(name, real, required=required)

    def _list(self, name: str, field: Mapping[str, Any], depth: int, *, required: bool) -> Any:
        items, found = self._resolved(field.get("items") or {}), list[Any]()
        fields = bool(items.get("properties")) and depth < DEEPEST
        if not fields:
            self._say("  One on each line; an empty line ends the list.")
        while True:
            if fields:
                if not self._wanted(f"Add entry {len(found) + 1}?"):
                    break
                found.append(self._fields(items, f"{name}[{len(found)}].", {}, depth + 1))
            else:
                value = self._value(f"{name}[{len(found)}]", items, required=False)
                if value is None:
                    break
                found.append(value)
        if not found and not required:
            return None
        if fault := self._fault(found, field):
            self._say(f"  {fault}")
            self._check_open(name)
            return self._list(name, field, depth, required=required)
        return found

    def _value(self, name: str, field: Mapping[str, Any], *, required: bool) -> Any:
        while True:
            line = self._read()
            if not line:
                if not required:
                    return None
                self._check_open(name)
                self._say("  This is needed.")
                continue
            try:
                value = typed(name, line, field)
            except InvalidInput as error:
                self._say(f"  {error}")
                continue
            if fault := self._fault(value, field):
                self._say(f"  {fault}")
                continue
            return value

    def _read(self) -> str | None:
        line = self._type()
        self._ended = line is None
        return line

    def _check_open(self, name: str) -> None:
        """Raise `CommandFailed` if nothing more can be typed for a field that needs a value."""
        if self._ended:
            raise CommandFailed(f"The input ended before {name!r} had a value.", code=INVALID)

    def _wanted(self, question: str) -> bool:
        self._say(f"  {question} [y/N]")
        return (self._read() or "").strip().lower() in ("y", "yes")

    def _fault(self, value: Any, field: Mapping[str, Any]) -> str:
        """Return why a value does not fit its schema, in one sentence; empty if it does."""
        validator = import_module("jsonschema").Draft202012Validator
        complete = {**field, "$defs": self._schema.get("$defs", {})}
        fault = next(validator(complete).iter_errors(value), None)
        return "" if fault is None else f"{fault.message}."

    def _resolved(self, field: Mapping[str, Any]) -> Json:
        """Follow a local reference, and take the one choice of "this or null"."""
        found = dict(field)
        if reference := found.pop("$ref", None):
            name = str(reference).rpartition("/")[2]
            found = {**self._resolved(self._schema.get("$defs", {}).get(name, {})), **found}
        choices = [one for one in found.get("anyOf", []) if one.get("type") != "null"]
        if len(choices) == 1:
            del found["anyOf"]
            found = {**self._resolved(choices[0]), **found}
        return found


def _title(name: str, field: Mapping[str, Any], *, required: bool) -> str:
    """The name of a field with its type and its default, such as `limit (integer, default 20)`."""
    told = [" or ".join(kinds_of(field)) or "any"]
    if "enum" in field:
        told = [f"one of {', '.join(map(str, field['enum']))}"]
    if required:
        told.append("required")
    elif field.get("default") not in (None, "", [], {}):
        told.append(f"default {json.dumps(field['default'], ensure_ascii=False)}")
    return f"{name} ({', '.join(told)})"
