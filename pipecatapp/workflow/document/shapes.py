"""Types as documents write them, short-hand for JSON Schema.

`text`, `integer`, `number`, `boolean`, `object`, `list`, `messages`, `any`; with `?` when it may be
absent; `list of text` or `[text]`; `one of low, high`; `{title: text, pages: integer?}`.
"""

from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property, lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from pipecatapp.workflow.document.diagnostic import did_you_mean
from pipecatapp.workflow.ledger.values import canonical
from pipecatapp.workflow.tool import Json, complaints


class ShapeError(ValueError):
    """A type is not valid, or a value does not match it; the message names the part."""


class Message(BaseModel):
    """One message of a chat, in the form of the OpenAI API."""

    model_config = ConfigDict(extra="allow")

    role: str
    content: Any = None


_WORDS: Mapping[str, Any] = {
    "text": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "object": dict[str, Any],
    "list": list[Any],
    "messages": list[Message],
    "any": Any,
}


LONGEST = 1000
"""Characters of a type that is written as one text."""

SHORTHAND: Mapping[str, str] = {
    "text": "a text",
    "integer": "a whole number",
    "number": "any number",
    "boolean": "`true` or `false`",
    "object": "an object with any keys",
    "list": "a list of anything",
    "messages": "a chat, as messages of the OpenAI API",
    "any": "anything",
    "text?": "a text, or nothing; `?` works with every type",
    "list of text": "a list of one type; `[text]` is the same",
    "one of low, high": "one of these texts",
    "{title: text, pages: integer?}": "an object with these keys",
}
"""Notations of types, with their meaning."""


class Shape:
    """A type that values are checked against."""

    def __init__(self, shorthand: Any) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(_python_type(shorthand))

    def check(self, value: Any) -> Any:
        """The value as plain JSON; raises `ShapeError`."""
        try:
            return self._adapter.dump_python(
                self._adapter.validate_python(value), mode="json", exclude_unset=True
            )
        except ValidationError as error:
            raise ShapeError(complaints(error)) from error

    def schema(self) -> Json:
        """Its JSON Schema, which the caller may change."""
        return deepcopy(self._schema)

    @cached_property
    def _schema(self) -> Json:
        return self._adapter.json_schema()


def shape(shorthand: Any) -> Shape:
    """Return the type of a short-hand notation; raises `ShapeError`."""
    return _shape(canonical(shorthand), _Given(shorthand))


class _Given:
    """Carries a short-hand past the cache, whose key is its text."""

    def __init__(self, shorthand: Any) -> None:
        self.shorthand = shorthand

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Given)

    def __hash__(self) -> int:
        return 0


@lru_cache(1024)
def _shape(_key: str, given: _Given) -> Shape:
    return Shape(given.shorthand)


def _python_type(shorthand: Any) -> Any:
    if isinstance(shorthand, str):
        return _word(shorthand.strip())
    if isinstance(shorthand, list) and len(shorthand) == 1:
        return list[_python_type(shorthand[0])]  # type: ignore[misc]
    if isinstance(shorthand, dict) and shorthand:
        fields: dict[str, Any] = {name: _field(inner) for name, inner in shorthand.items()}
        aliased = {
            f"f{i}": (kind, Field(default, alias=name))
            for i, (name, (kind, default)) in enumerate(fields.items())
        }
        config = ConfigDict(serialize_by_alias=True)
        return create_model("object", __config__=config, **aliased)  # type: ignore[call-overload]
    raise ShapeError(f"{shorthand!r} is not a type")


def _field(shorthand: Any) -> tuple[Any, Any]:
    optional = isinstance(shorthand, str) and shorthand.strip().endswith("?")
    return _python_type(shorthand), None if optional else ...


def _word(word: str) -> Any:
    if len(word) > LONGEST:
        raise ShapeError(f"a type of more than {LONGEST} characters")
    if word.endswith("?"):
        return _word(word[:-1].rstrip()) | None
    if word.startswith("list of "):
        return list[_word(word.removeprefix("list of ").strip())]  # type: ignore[misc]
    if word.startswith("one of "):
        choices = [choice.strip() for choice in word.removeprefix("one of ").split(",")]
        if not all(choices):
            raise ShapeError(f"{word!r} has an empty choice")
        return Literal[tuple(choices)]
    if word not in _WORDS:
        raise ShapeError(
            f"there is no type {word!r}. {did_you_mean(word, [*_WORDS, 'list of …', 'one of …'])}"
        )
    return _WORDS[word]


def kinds(schema: Json, root: Json | None = None) -> frozenset[str] | None:
    """Return the JSON types that a schema permits; None if it does not restrict them."""
    schema = _resolved(schema, root or schema)
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        found = [kinds(choice, root or schema) for choice in choices]
        return None if None in found else frozenset().union(*[kind for kind in found if kind])
    if "enum" in schema or "const" in schema:
        return frozenset(_kind(value) for value in schema.get("enum", [schema.get("const")]))
    declared = schema.get("type")
    if declared is None:
        return None
    return frozenset(declared if isinstance(declared, list) else [declared])


def fits(given: Json, wanted: Json, *, given_root: Json, wanted_root: Json) -> bool:
    """Return whether a value of one schema can match the other, as far as their types show."""
    left, right = kinds(given, given_root), kinds(wanted, wanted_root)
    if left is None or right is None:
        return True
    wider = right | {"integer"} if "number" in right else right
    return bool(left & wider) or ("integer" in wider and "number" in left)


def look_up(schema: Json, path: tuple[str | int, ...], root: Json) -> Json:
    """The schema of an item inside; `{}` where nothing is known.

    Raises `ShapeError` for one that cannot be there.
    """
    for part in path:
        schema = _resolved(schema, root)
        if any(key in schema for key in ("anyOf", "oneOf", "allOf")):
            return {}
        if isinstance(part, int):
            schema = schema.get("items", {})
            continue
        fields = schema.get("properties")
        if fields is not None and part in fields:
            schema = fields[part]
        elif fields is not None and not schema.get("additionalProperties"):
            raise ShapeError(f"there is no {part!r} in it. {did_you_mean(part, fields)}")
        else:
            _refuse_scalar(schema, part)
            schema = {}
    return schema


def _refuse_scalar(schema: Json, part: str) -> None:
    declared = schema.get("type")
    if declared in ("string", "integer", "number", "boolean", "null"):
        raise ShapeError(f"there is no {part!r} in a {declared}")


def _resolved(schema: Json, root: Json) -> Json:
    while "$ref" in schema:
        schema = root.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
    return schema


def _kind(value: Any) -> str:
    names = {
        str: "string",
        bool: "boolean",
        int: "integer",
        float: "number",
        type(None): "null",
        list: "array",
    }
    return names.get(type(value), "object")
