"""The filters and tests of expressions, on plain JSON values, and the meter they run under."""

import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pipecatapp.workflow.document.diagnostic import did_you_mean
from pipecatapp.workflow.ledger.values import read_json

BUDGET = 1_000_000
"""Units that one evaluation may use; a unit is about 64 characters or one item.

This takes far less than a second.
"""
LONGEST_TEXT = 1_000_000
LONGEST_LIST = 100_000
WIDEST_NUMBER = 256


class ExpressionError(ValueError):
    """An expression is not permitted or has no value.

    Correct the text that the message shows.
    """


@dataclass(frozen=True)
class Missing:
    """The result of a look-up without a value; only `default` and `first` accept it."""

    reason: str


class Meter:
    """The remaining budget of one evaluation."""

    def __init__(self) -> None:
        self._left = BUDGET

    def spend(self, units: int) -> None:
        """Use some; raises `ExpressionError` when too much was used."""
        self._left -= units
        if self._left < 0:
            raise ExpressionError("the expression does too much work")

    def weigh(self, *values: Any) -> None:
        """Use the units that reading these values costs."""
        for value in values:
            self.spend(1 + len(value) // 64 if isinstance(value, str) else 1)
            if isinstance(value, dict):
                self.weigh(*value, *value.values())
            elif isinstance(value, list):
                self.spend(len(value))
                self.weigh(*value)

    def made(self, value: Any) -> Any:
        """Pass a new value on, unless it is too large."""
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise ExpressionError(f"a text of more than {LONGEST_TEXT} characters")
        if isinstance(value, list | dict) and len(value) > LONGEST_LIST:
            raise ExpressionError(f"more than {LONGEST_LIST} items")
        if isinstance(value, int) and value.bit_length() > WIDEST_NUMBER:
            raise ExpressionError("a number that is too large")
        if isinstance(value, float) and not math.isfinite(value):
            raise ExpressionError("a number that is too large")
        return value


def text_of(value: Any, meter: Meter) -> str:
    """A value inside a text: none is nothing, lists and objects are JSON."""
    meter.weigh(value)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def bind(what: str, known: Mapping[str, Callable[..., Any]], node: Any) -> Callable[..., Any]:
    """The function a filter or test names, its arguments counted; raises `ExpressionError`."""
    function = known.get(node.name)
    if function is None:
        raise ExpressionError(f"there is no {what} {node.name!r}. {did_you_mean(node.name, known)}")
    if node.dyn_args or node.dyn_kwargs:
        raise ExpressionError("arguments are written out; * and ** are not allowed")
    try:
        named = dict.fromkeys(pair.key for pair in node.kwargs)
        inspect.signature(function).bind(None, None, *node.args, **named)
    except TypeError as error:
        raise ExpressionError(f"{what} {node.name!r}: {error}") from error
    return function


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ExpressionError(f"needs a text, not {type(value).__name__}")
    return value


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list | str | dict):
        raise ExpressionError(f"needs a list, not {type(value).__name__}")
    return list(value)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ExpressionError(f"needs an object, not {type(value).__name__}")
    return value


def _field(value: Any, name: Any) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise ExpressionError(f"an item has no {name!r}")
    return value[name]


def _key(attribute: str | None) -> Callable[[Any], Any]:
    return (lambda item: item) if attribute is None else (lambda item: _field(item, attribute))


def _default(_meter: Meter, value: Any, other: Any = "", boolean: Any = None) -> Any:
    return other if isinstance(value, Missing) or (boolean and not value) else value


def _replace(meter: Meter, value: Any, old: str, new: str) -> str:
    text = _text(value)
    if len(text) + text.count(_text(old)) * len(_text(new)) > LONGEST_TEXT:
        raise ExpressionError(f"a text of more than {LONGEST_TEXT} characters")
    return text.replace(old, new)


def _join(meter: Meter, value: Any, between: str = "", attribute: str | None = None) -> str:
    texts = [text_of(_key(attribute)(item), meter) for item in _items(value)]
    if sum(map(len, texts)) + len(texts) * len(_text(between)) > LONGEST_TEXT:
        raise ExpressionError(f"a text of more than {LONGEST_TEXT} characters")
    return between.join(texts)


def _sort(meter: Meter, value: Any, reverse: Any = None, attribute: str | None = None) -> list[Any]:
    items = _items(value)
    for _ in range(len(items).bit_length()):
        meter.weigh(items)
    return sorted(items, key=_key(attribute), reverse=bool(reverse))


def _unique(meter: Meter, value: Any) -> list[Any]:
    seen: dict[str, Any] = {}
    for item in _items(value):
        seen.setdefault(json.dumps(item, sort_keys=True), item)
    return list(seen.values())


def _map(
    meter: Meter, value: Any, name: str | None = None, attribute: str | None = None
) -> list[Any]:
    if attribute is not None:
        return [_field(item, attribute) for item in _items(value)]
    function = FILTERS.get(name or "")
    if function is None or name in ("map", "select", "reject", "selectattr", "rejectattr"):
        raise ExpressionError("map takes attribute='…' or the name of a simple filter")
    return [function(meter, item) for item in _items(value)]


def _picked(
    meter: Meter,
    value: Any,
    attribute: str | None,
    test: Any,
    given: tuple[Any, ...],
    *,
    wanted: bool,
) -> list[Any]:
    function, key = TESTS.get(test) if isinstance(test, str) else None, _key(attribute)
    if test is not None and function is None:
        raise ExpressionError(f"there is no test {test!r}. {did_you_mean(str(test), TESTS)}")
    return [
        item
        for item in _items(value)
        if bool(function(meter, key(item), *given) if function else key(item)) == wanted
    ]


def _truncate(_meter: Meter, value: Any, length: int = 255, end: str = "…") -> str:
    text = _text(value)
    return text if len(text) <= length else text[: max(0, length - len(end))] + end


def number(value: Any) -> Any:
    """The value, which must be a number; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ExpressionError(f"needs a number, not {type(value).__name__}")
    return value


def _inside(part: Any, whole: Any) -> bool:
    if isinstance(whole, str):
        return _text(part) in whole
    return part in _items(whole)


def _to_int(_meter: Meter, value: Any) -> int:
    if isinstance(value, str) and len(value) > 80:
        raise ExpressionError("a number that is too large")
    return int(float(value) if isinstance(value, str) and "." in value else value)


def _from_json(meter: Meter, value: Any) -> Any:
    found = read_json(_text(value), parse_constant=lambda word: _refuse(f"{word} is not JSON"))
    meter.weigh(found)
    return found


def _refuse(reason: str) -> Any:
    raise ExpressionError(reason)


Filter = Callable[..., Any]

FILTERS: Mapping[str, Filter] = {
    "abs": lambda _m, v: abs(number(v)),
    "default": _default,
    "first": lambda _m, v: _items(v)[0],
    "float": lambda _m, v: float(v),
    "fromjson": _from_json,
    "int": _to_int,
    "items": lambda _m, v: [list(pair) for pair in _object(v).items()],
    "join": _join,
    "keys": lambda _m, v: list(_object(v)),
    "last": lambda _m, v: _items(v)[-1],
    "length": lambda _m, v: len(_items(v)),
    "lines": lambda _m, v: _text(v).splitlines(),
    "list": lambda _m, v: _items(v),
    "lower": lambda _m, v: _text(v).lower(),
    "map": _map,
    "max": lambda _m, v: max(_items(v)),
    "min": lambda _m, v: min(_items(v)),
    "reject": lambda m, v, test=None, *given: _picked(m, v, None, test, given, wanted=False),
    "rejectattr": lambda m, v, attribute, test=None, *given: _picked(
        m, v, attribute, test, given, wanted=False
    ),
    "replace": _replace,
    "reverse": lambda _m, v: v[::-1] if isinstance(v, str) else _items(v)[::-1],
    "round": lambda _m, v, digits=0: round(number(v), max(-20, min(20, digits))),
    "select": lambda m, v, test=None, *given: _picked(m, v, None, test, given, wanted=True),
    "selectattr": lambda m, v, attribute, test=None, *given: _picked(
        m, v, attribute, test, given, wanted=True
    ),
    "sort": _sort,
    "split": lambda _m, v, at=None: _text(v).split(at),
    "string": lambda m, v: text_of(v, m),
    "sum": lambda _m, v: sum(number(item) for item in _items(v)),
    "tojson": lambda _m, v: json.dumps(v, ensure_ascii=False),
    "trim": lambda _m, v: _text(v).strip(),
    "truncate": _truncate,
    "unique": _unique,
    "upper": lambda _m, v: _text(v).upper(),
    "values": lambda _m, v: list(_object(v).values()),
}

OPERATORS: Mapping[str, Filter] = {
    "gteq": lambda _m, v, other: v >= other,
    "lteq": lambda _m, v, other: v <= other,
    "notin": lambda _m, v, many: not _inside(v, many),  # codespell:ignore notin
}
"""Comparisons that Jinja2 names in its tree only."""

TESTS: Mapping[str, Filter] = {
    "boolean": lambda _m, v: isinstance(v, bool),
    "containing": lambda _m, v, part: _inside(part, v),
    "eq": lambda _m, v, other: v == other,
    "even": lambda _m, v: number(v) % 2 == 0,
    "false": lambda _m, v: v is False,
    "ge": lambda _m, v, other: v >= other,
    "gt": lambda _m, v, other: v > other,
    "in": lambda _m, v, many: _inside(v, many),
    "le": lambda _m, v, other: v <= other,
    "lt": lambda _m, v, other: v < other,
    "mapping": lambda _m, v: isinstance(v, dict),
    "ne": lambda _m, v, other: v != other,
    "none": lambda _m, v: v is None,
    "number": lambda _m, v: isinstance(v, int | float) and not isinstance(v, bool),
    "odd": lambda _m, v: number(v) % 2 == 1,
    "sequence": lambda _m, v: isinstance(v, list),
    "string": lambda _m, v: isinstance(v, str),
    "true": lambda _m, v: v is True,
    **OPERATORS,
}
