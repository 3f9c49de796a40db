"""Expressions: the grammar of Jinja2, evaluated by the engine.

Jinja2 only parses. Its syntax tree is compiled to closures over plain JSON values: look-up of
items, never of attributes; no calls except `first(…)`; the filters and tests of `filters.py`. So
there is no sandbox to escape from. Evaluation is metered: no expression runs for long or creates a
large value.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jinja2 import Environment, TemplateSyntaxError
from jinja2 import nodes as ast

from pipecatapp.workflow.expressions.filters import (
    FILTERS,
    TESTS,
    ExpressionError,
    Meter,
    Missing,
    bind,
    number,
    text_of,
)

LONGEST = 20_000
"""Characters of one string with expressions."""

BEFORE = "prev"
"""The outputs of the previous iteration: null if it had none, or in the first iteration."""

NULL = "null"
"""No value, as in JSON and YAML; Jinja2 itself only knows `none`."""

_PARSER = Environment(autoescape=False)

Names = Mapping[str, Any]
Evaluate = Callable[[Names, Meter], Any]
Where = tuple[str | int, ...]


@dataclass(frozen=True)
class Read:
    """A name that is read, with the items looked up in it; a soft one may be missing."""

    path: Where
    soft: bool

    def __str__(self) -> str:
        return ".".join(str(part) for part in self.path)


@dataclass(frozen=True)
class Expression:
    """One string of a document, compiled.

    `native`: it is exactly one `{{…}}` and keeps the type of its value; others give text. `only` is
    the read value if it is nothing but a look-up.
    """

    source: str
    reads: tuple[Read, ...]
    evaluate: Evaluate = field(repr=False)
    native: bool = False
    only: Read | None = None

    def value(self, names: Names) -> Any:
        """Its value; raises `ExpressionError`."""
        try:
            return self.evaluate(names, Meter())
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            shown = " ".join(self.source.split())
            raise ExpressionError(f"{shown[:100]}: {error or type(error).__name__}") from error


def is_expression(value: object) -> bool:
    """Whether a value of a document holds anything to evaluate."""
    return isinstance(value, str) and any(mark in value for mark in ("{{", "{%", "{#"))


@lru_cache(4096)
def expression(source: str) -> Expression:
    """Compile one string; raises `ExpressionError` for what is not allowed."""
    if len(source) > LONGEST:
        raise ExpressionError(f"longer than {LONGEST} characters")
    reads: list[Read] = []
    try:
        parts = _parts(_PARSER.parse(source))
        compiled = [_operand(part, reads) for part in parts]
    except ExpressionError:
        raise
    except TemplateSyntaxError as error:
        raise ExpressionError(error.message or "not an expression") from error
    except (RecursionError, ValueError) as error:
        raise ExpressionError("nested too deeply, or a number too long") from error
    if len(parts) == 1 and not isinstance(parts[0], ast.TemplateData):
        only = _lookup(parts[0], soft=False)
        return Expression(source, tuple(reads), compiled[0], native=True, only=only)
    return Expression(source, tuple(reads), _all(_joined, compiled))


def render(value: Any, names: Names) -> Any:
    """Evaluate every expression in a value of a document, once.

    The result is data and is not evaluated again.
    """
    if isinstance(value, dict):
        return {key: render(inner, names) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [render(inner, names) for inner in value]
    return expression(value).value(names) if is_expression(value) else value


def expressions(value: Any, at: Where = ()) -> Iterator[tuple[Where, str]]:
    """Yield every string with expressions, and its position."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from expressions(inner, (*at, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from expressions(inner, (*at, index))
    elif is_expression(value):
        yield at, value


def _parts(template: ast.Template) -> list[ast.Expr]:
    parts: list[ast.Expr] = []
    for node in template.body:
        if not isinstance(node, ast.Output):
            name = type(node).__name__.lower()
            raise ExpressionError(f"statements are not allowed: {{% {name} … %}}")
        parts.extend(node.nodes)
    return parts


def _compile(node: ast.Node, reads: list[Read], *, soft: bool = False) -> Evaluate:
    """The closure for a node; notes what it reads."""
    if (read := _lookup(node, soft=soft)) is not None:
        reads.append(read)
        return _look(read)
    if isinstance(node, ast.BinExpr) and type(node) in _BINARY:
        return _all(
            _BINARY[type(node)], [_operand(side, reads) for side in (node.left, node.right)]
        )
    if type(node) in _OTHERS:
        return _OTHERS[type(node)](node, reads)
    raise ExpressionError(f"{type(node).__name__} is not allowed here")


def _operand(node: ast.Node, reads: list[Read]) -> Evaluate:
    """The closure for a node whose value must be there."""
    evaluate = _compile(node, reads)

    def present(names: Names, meter: Meter) -> Any:
        value = evaluate(names, meter)
        if isinstance(value, Missing):
            raise ExpressionError(value.reason)
        return value

    return present


def _all(function: Callable[..., Any], operands: list[Evaluate]) -> Evaluate:
    """Evaluate every operand, then the function on their values."""
    return lambda names, meter: meter.made(
        function(meter, *[operand(names, meter) for operand in operands])
    )


def _lookup(node: ast.Node, *, soft: bool) -> Read | None:
    """`a.b['c'][0]` as one path, or None for anything else."""
    path: list[str | int] = []
    while isinstance(node, ast.Getattr | ast.Getitem):
        if isinstance(node, ast.Getattr):
            path.append(node.attr)
        elif isinstance(node.arg, ast.Const) and isinstance(node.arg.value, str | int):
            path.append(node.arg.value)
        else:
            return None
        node = node.node
    if not isinstance(node, ast.Name) or node.name == NULL:
        return None
    return Read((node.name, *reversed(path)), soft)


def _look(read: Read) -> Evaluate:
    name, *items = read.path

    def look(names: Names, meter: Meter) -> Any:
        value = found = names.get(str(name), Missing(f"there is no {name!r} here"))
        for item in items:
            value = _item(meter, value, item)
        if name == BEFORE and isinstance(value, Missing) and not isinstance(found, Missing):
            return None
        return value

    return look


def _item(meter: Meter, value: Any, key: Any) -> Any:
    """An item of a value; what is not there is `Missing`, and so is everything in it."""
    meter.spend(1)
    if isinstance(value, Missing):
        return value
    if isinstance(value, dict) and isinstance(key, str):
        known = ", ".join(map(str, value))[:200] or "nothing"
        return value[key] if key in value else Missing(f"there is no {key!r}; there is {known}")
    if isinstance(value, list | str) and isinstance(key, int) and not isinstance(key, bool):
        return value[key] if -len(value) <= key < len(value) else Missing(f"there is no item {key}")
    return Missing(f"there is no item {key!r} in a {type(value).__name__}")


def _getitem(node: Any, reads: list[Read]) -> Evaluate:
    if isinstance(node, ast.Getattr):
        value, attribute = _compile(node.node, reads), node.attr
        return lambda names, meter: _item(meter, value(names, meter), attribute)
    if isinstance(node.arg, ast.Slice):
        ends = [node.arg.start, node.arg.stop, node.arg.step]
        parts = [node.node, *(end or ast.Const(None) for end in ends)]
        return _all(_cut, [_operand(part, reads) for part in parts])
    value, key = _compile(node.node, reads), _operand(node.arg, reads)
    return lambda names, meter: _item(meter, value(names, meter), key(names, meter))


def _cut(meter: Meter, whole: Any, *ends: Any) -> Any:
    if not isinstance(whole, list | str):
        raise ExpressionError("only a list or a text can be cut")
    meter.spend(len(whole) // 64)
    return whole[slice(*ends)]


def _constant(node: Any, _reads: list[Read]) -> Evaluate:
    value = node.data if isinstance(node, ast.TemplateData) else Meter().made(node.value)
    return lambda _names, _meter: value


def _list(node: Any, reads: list[Read]) -> Evaluate:
    return _all(lambda _meter, *items: list(items), [_operand(item, reads) for item in node.items])


def _dict(node: Any, reads: list[Read]) -> Evaluate:
    keys = [_operand(pair.key, reads) for pair in node.items]
    values = [_operand(pair.value, reads) for pair in node.items]

    def build(_meter: Meter, *parts: Any) -> Any:
        half = len(parts) // 2
        if not all(isinstance(key, str) for key in parts[:half]):
            raise ExpressionError("the keys of an object are texts")
        return dict(zip(parts[:half], parts[half:], strict=True))

    return _all(build, [*keys, *values])


def _add(meter: Meter, a: Any, b: Any) -> Any:
    if isinstance(a, str | list) and type(a) is type(b):
        meter.weigh(a, b)
        return operator.add(a, b)
    return number(a) + number(b)


def _joined(meter: Meter, *values: Any) -> str:
    return "".join([text_of(value, meter) for value in values])


def _sign(node: Any, reads: list[Read]) -> Evaluate:
    factor = -1 if isinstance(node, ast.Neg) else 1
    return _all(lambda _meter, value: factor * number(value), [_operand(node.node, reads)])


def _not(node: Any, reads: list[Read]) -> Evaluate:
    return _all(lambda _meter, value: not value, [_operand(node.node, reads)])


def _and_or(node: Any, reads: list[Read]) -> Evaluate:
    left, right = _operand(node.left, reads), _operand(node.right, reads)
    if isinstance(node, ast.And):
        return lambda names, meter: left(names, meter) and right(names, meter)
    return lambda names, meter: left(names, meter) or right(names, meter)


def _condition(node: Any, reads: list[Read]) -> Evaluate:
    if node.expr2 is None:
        raise ExpressionError("an `if` inside an expression needs an `else`")
    test, then, other = (_operand(part, reads) for part in (node.test, node.expr1, node.expr2))
    return lambda names, meter: (then if test(names, meter) else other)(names, meter)


def _concat(node: Any, reads: list[Read]) -> Evaluate:
    return _all(_joined, [_operand(part, reads) for part in node.nodes])


def _compare(node: Any, reads: list[Read]) -> Evaluate:
    names_of = [operand.op for operand in node.ops]
    parts = [node.expr, *(operand.expr for operand in node.ops)]

    def compare(meter: Meter, *values: Any) -> bool:
        meter.weigh(*values)
        steps = zip(names_of, values, values[1:], strict=False)
        return all(TESTS[name](meter, left, right) for name, left, right in steps)

    return _all(compare, [_operand(part, reads) for part in parts])


def _call(node: Any, reads: list[Read]) -> Evaluate:
    plain = node.args and not (node.kwargs or node.dyn_args or node.dyn_kwargs)
    if not (isinstance(node.node, ast.Name) and node.node.name == "first" and plain):
        raise ExpressionError("calls are not allowed, only first(a, b) and filters: a | upper")
    choices = [_compile(choice, reads, soft=True) for choice in node.args]

    def first(names: Names, meter: Meter) -> Any:
        for choice in choices:
            if not isinstance(found := choice(names, meter), Missing):
                return found
        return Missing("nothing in first(…) has a value")

    return first


def _filter(node: Any, reads: list[Read]) -> Evaluate:
    """Compile a filter or test on a value; `default` accepts a missing value."""
    known = TESTS if isinstance(node, ast.Test) else FILTERS
    function = bind(type(node).__name__.lower(), known, node)
    soft = isinstance(node, ast.Filter) and node.name == "default"
    value = _compile(node.node, reads, soft=True) if soft else _operand(node.node, reads)
    named = [pair.key for pair in node.kwargs]
    given = [*node.args, *(pair.value for pair in node.kwargs)]

    def apply(meter: Meter, subject: Any, *values: Any) -> Any:
        meter.weigh(subject, *values)
        plain = len(values) - len(named)
        more = dict(zip(named, values[plain:], strict=True))
        return function(meter, subject, *values[:plain], **more)

    return _all(apply, [value, *(_operand(part, reads) for part in given)])


_BINARY: Mapping[type[ast.Expr], Callable[[Meter, Any, Any], Any]] = {
    ast.Add: _add,
    ast.Sub: lambda _meter, a, b: number(a) - number(b),
    ast.Mul: lambda _meter, a, b: number(a) * number(b),
    ast.Div: lambda _meter, a, b: number(a) / number(b),
    ast.FloorDiv: lambda _meter, a, b: number(a) // number(b),
    ast.Mod: lambda _meter, a, b: number(a) % number(b),
}
_OTHERS: Mapping[type[ast.Node], Callable[[Any, list[Read]], Evaluate]] = {
    ast.Name: lambda _node, _reads: lambda _names, _meter: None,  # `null`; see `_lookup`.
    ast.Getattr: _getitem,
    ast.Getitem: _getitem,
    ast.Const: _constant,
    ast.TemplateData: _constant,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Dict: _dict,
    ast.Neg: _sign,
    ast.Pos: _sign,
    ast.Not: _not,
    ast.And: _and_or,
    ast.Or: _and_or,
    ast.CondExpr: _condition,
    ast.Concat: _concat,
    ast.Compare: _compare,
    ast.Call: _call,
    ast.Filter: _filter,
    ast.Test: _filter,
}
