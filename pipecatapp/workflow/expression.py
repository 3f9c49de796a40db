"""Expressions: the grammar of Jinja2, evaluated by us.

Jinja2 only parses. Its tree is turned into closures over plain JSON values: look-up of items, never
of attributes; no calls but `first(…)`; the filters and tests of `filters.py`. So there is no sandbox
to escape from. Everything is metered, so no expression runs for long or grows a large value.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jinja2 import Environment, TemplateSyntaxError
from jinja2 import nodes as ast

from pipecatapp.workflow.filters import (
    FILTERS,
    TESTS,
    ExpressionError,
    Meter,
    Missing,
    bind,
    text_of,
)

LONGEST = 20_000
"""Characters of one string with expressions."""

_PARSER = Environment(autoescape=False)
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
_ARITHMETIC: Mapping[type[ast.Expr], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Sub: ("-", operator.sub),
    ast.Mul: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}

Names = Mapping[str, Any]
Evaluate = Callable[[Names, Meter], Any]


@dataclass(frozen=True)
class Read:
    """A name that is read, with the items looked up in it. A soft one may be missing: `first(a.b, …)`."""

    path: tuple[str | int, ...]
    soft: bool

    def __str__(self) -> str:
        return ".".join(str(part) for part in self.path)


@dataclass(frozen=True)
class Expression:
    """One string of a document, compiled. `only` is what it reads when it is nothing but a look-up."""

    source: str
    native: bool
    reads: tuple[Read, ...]
    only: Read | None
    evaluate: Evaluate = field(repr=False)

    def value(self, names: Names) -> Any:
        """Its value: native for a string that is exactly one `{{…}}`, else text. Raises `ExpressionError`."""
        try:
            return self.evaluate(names, Meter())
        except ExpressionError:
            raise
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ExpressionError(f"{error or type(error).__name__}") from error


def is_expression(value: object) -> bool:
    """Whether a value of a document holds anything to evaluate."""
    return isinstance(value, str) and ("{{" in value or "{%" in value or "{#" in value)


@lru_cache(4096)
def expression(source: str) -> Expression:
    """Compile one string; raises `ExpressionError` for what is not allowed."""
    if len(source) > LONGEST:
        raise ExpressionError(f"longer than {LONGEST} characters")
    try:
        parts = _parts(_PARSER.parse(source))
        reads: list[Read] = []
        compiled = [_need(_compile(part, reads)) for part in parts]
    except ExpressionError:
        raise
    except TemplateSyntaxError as error:
        raise ExpressionError(error.message or "not an expression") from error
    except (RecursionError, ValueError) as error:
        raise ExpressionError("nested too deeply or a number too long") from error
    if len(parts) == 1 and not isinstance(parts[0], ast.TemplateData):
        return Expression(source, True, tuple(reads), _lookup(parts[0], soft=False), compiled[0])
    return Expression(
        source, False, tuple(reads), None, lambda names, meter: _joined(compiled, names, meter)
    )


def render(value: Any, names: Names) -> Any:
    """A value of a document with every expression in it evaluated, once. What comes out is data, whatever it says."""
    if isinstance(value, dict):
        return {key: render(inner, names) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [render(inner, names) for inner in value]
    return expression(value).value(names) if is_expression(value) else value


def expressions(
    value: Any, at: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every string with something to evaluate, and where it stands."""
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
            raise ExpressionError(
                f"statements are not allowed: {{% {type(node).__name__.lower()} … %}}"
            )
        parts.extend(node.nodes)
    return parts


def _joined(compiled: list[Evaluate], names: Names, meter: Meter) -> str:
    return str(meter.made("".join(text_of(part(names, meter), meter) for part in compiled)))


def _need(evaluate: Evaluate) -> Evaluate:
    def present(names: Names, meter: Meter) -> Any:
        value = evaluate(names, meter)
        if isinstance(value, Missing):
            raise ExpressionError(value.reason)
        return value

    return present


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
    return Read((node.name, *reversed(path)), soft) if isinstance(node, ast.Name) else None


def _compile(node: ast.Node, reads: list[Read], *, soft: bool = False) -> Evaluate:
    """The closure for a node; notes what it reads."""
    if (read := _lookup(node, soft=soft)) is not None:
        reads.append(read)
        return _path(read)
    compiler = _COMPILERS.get(type(node))
    if compiler is not None:
        return compiler(node, reads)
    if type(node) in _ARITHMETIC:
        return _arithmetic(node, reads)
    raise ExpressionError(f"{type(node).__name__} is not allowed here")


def _operand(node: ast.Node, reads: list[Read]) -> Evaluate:
    return _need(_compile(node, reads))


def _path(read: Read) -> Evaluate:
    name, *items = read.path

    def look(names: Names, meter: Meter) -> Any:
        meter.spend(1 + len(items))
        value = names.get(str(name), Missing(f"there is no {name!r} here"))
        for item in items:
            value = _item(value, item)
        return value

    return look


def _item(value: Any, key: Any) -> Any:
    if isinstance(value, Missing):
        return value
    if isinstance(value, dict) and isinstance(key, str):
        return (
            value[key]
            if key in value
            else Missing(f"there is no {key!r}; there is {', '.join(map(str, value))[:200]}")
        )
    if isinstance(value, list | str) and isinstance(key, int) and not isinstance(key, bool):
        return value[key] if -len(value) <= key < len(value) else Missing(f"there is no item {key}")
    return Missing(f"there is no item {key!r} in a {type(value).__name__}")


def _getitem(node: Any, reads: list[Read]) -> Evaluate:
    if isinstance(node, ast.Getitem) and isinstance(node.arg, ast.Slice):
        return _slice(node, reads)
    value = _compile(node.node, reads)
    key = (
        _operand(node.arg, reads)
        if isinstance(node, ast.Getitem)
        else lambda _names, _meter: node.attr
    )
    return lambda names, meter: _item(value(names, meter), key(names, meter))


def _slice(node: Any, reads: list[Read]) -> Evaluate:
    value = _operand(node.node, reads)
    ends = [
        _operand(end, reads) if end else None
        for end in (node.arg.start, node.arg.stop, node.arg.step)
    ]

    def cut(names: Names, meter: Meter) -> Any:
        whole = value(names, meter)
        if not isinstance(whole, list | str):
            raise ExpressionError("only a list or a text can be cut")
        return meter.made(whole[slice(*(end(names, meter) if end else None for end in ends))])

    return cut


def _constant(node: Any, _reads: list[Read]) -> Evaluate:
    value = node.data if isinstance(node, ast.TemplateData) else node.value
    if isinstance(value, float) and not math.isfinite(value):
        raise ExpressionError("a number that is too large")
    return lambda _names, _meter: value


def _list(node: Any, reads: list[Read]) -> Evaluate:
    items = [_operand(item, reads) for item in node.items]
    return lambda names, meter: [item(names, meter) for item in items]


def _dict(node: Any, reads: list[Read]) -> Evaluate:
    pairs = [(_operand(pair.key, reads), _operand(pair.value, reads)) for pair in node.items]

    def build(names: Names, meter: Meter) -> Any:
        built = {key(names, meter): value(names, meter) for key, value in pairs}
        if not all(isinstance(key, str) for key in built):
            raise ExpressionError("the keys of an object are texts")
        return built

    return build


def _add(node: Any, reads: list[Read]) -> Evaluate:
    left, right = _operand(node.left, reads), _operand(node.right, reads)

    def add(names: Names, meter: Meter) -> Any:
        a, b = left(names, meter), right(names, meter)
        for kind in (str, list):
            if isinstance(a, kind) and isinstance(b, kind):
                meter.spend(len(a) + len(b))
                return meter.made(a + b)
        return meter.made(_numbers("+", a) + _numbers("+", b))

    return add


def _arithmetic(node: Any, reads: list[Read]) -> Evaluate:
    sign, operation = _ARITHMETIC[type(node)]
    left, right = _operand(node.left, reads), _operand(node.right, reads)
    return lambda names, meter: meter.made(
        operation(_numbers(sign, left(names, meter)), _numbers(sign, right(names, meter)))
    )


def _numbers(sign: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ExpressionError(f"{sign} needs numbers on both sides, not {type(value).__name__}")
    return value


def _signed(node: Any, reads: list[Read]) -> Evaluate:
    value, negative = _operand(node.node, reads), isinstance(node, ast.Neg)
    return lambda names, meter: _numbers("-", value(names, meter)) * (-1 if negative else 1)


def _not(node: Any, reads: list[Read]) -> Evaluate:
    value = _operand(node.node, reads)
    return lambda names, meter: not value(names, meter)


def _and(node: Any, reads: list[Read]) -> Evaluate:
    left, right = _operand(node.left, reads), _operand(node.right, reads)
    return lambda names, meter: left(names, meter) and right(names, meter)


def _or(node: Any, reads: list[Read]) -> Evaluate:
    left, right = _operand(node.left, reads), _operand(node.right, reads)
    return lambda names, meter: left(names, meter) or right(names, meter)


def _condition(node: Any, reads: list[Read]) -> Evaluate:
    test, then = _operand(node.test, reads), _operand(node.expr1, reads)
    if node.expr2 is None:
        raise ExpressionError("an `if` inside an expression needs an `else`")
    other = _operand(node.expr2, reads)
    return lambda names, meter: then(names, meter) if test(names, meter) else other(names, meter)


def _concat(node: Any, reads: list[Read]) -> Evaluate:
    parts = [_operand(part, reads) for part in node.nodes]
    return lambda names, meter: _joined(parts, names, meter)


def _compare(node: Any, reads: list[Read]) -> Evaluate:
    first = _operand(node.expr, reads)
    rest = [(operand.op, _operand(operand.expr, reads)) for operand in node.ops]

    def compare(names: Names, meter: Meter) -> bool:
        left = first(names, meter)
        for name, evaluate in rest:
            right = evaluate(names, meter)
            meter.weigh(left, right)
            if not _holds(name, left, right):
                return False
            left = right
        return True

    return compare


def _holds(name: str, left: Any, right: Any) -> bool:
    if name in ("in", "notin"):
        if isinstance(right, str) and not isinstance(left, str):
            raise ExpressionError("only a text can be in a text")
        return (left in right) == (name == "in")
    return bool(_COMPARE[name](left, right))


def _call(node: Any, reads: list[Read]) -> Evaluate:
    plain = node.args and not (node.kwargs or node.dyn_args or node.dyn_kwargs)
    if not (isinstance(node.node, ast.Name) and node.node.name == "first" and plain):
        raise ExpressionError(
            "calls are not allowed, but `first(a, b)` and filters such as `a | upper`"
        )
    choices = [_compile(choice, reads, soft=True) for choice in node.args]

    def first(names: Names, meter: Meter) -> Any:
        found: Any = Missing("nothing in first(…) has a value")
        for choice in choices:
            if not isinstance(found := choice(names, meter), Missing):
                break
        return found

    return first


def _filter(node: Any, reads: list[Read]) -> Evaluate:
    function = bind("filter", FILTERS, node)
    soft = node.name == "default"
    value = _compile(node.node, reads, soft=True) if soft else _operand(node.node, reads)
    return _applied(function, value, node, reads)


def _test(node: Any, reads: list[Read]) -> Evaluate:
    return _applied(bind("test", TESTS, node), _operand(node.node, reads), node, reads)


def _applied(
    function: Callable[..., Any], value: Evaluate, node: Any, reads: list[Read]
) -> Evaluate:
    args = [_operand(arg, reads) for arg in node.args]
    named = {pair.key: _operand(pair.value, reads) for pair in node.kwargs}

    def apply(names: Names, meter: Meter) -> Any:
        given = [value(names, meter), *(arg(names, meter) for arg in args)]
        meter.weigh(*given)
        more = {key: arg(names, meter) for key, arg in named.items()}
        return meter.made(function(meter, *given, **more))

    return apply


_COMPILERS: Mapping[type[ast.Node], Callable[[Any, list[Read]], Evaluate]] = {
    ast.Getattr: _getitem,
    ast.Getitem: _getitem,
    ast.Const: _constant,
    ast.TemplateData: _constant,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Dict: _dict,
    ast.Add: _add,
    ast.Neg: _signed,
    ast.Pos: _signed,
    ast.Not: _not,
    ast.And: _and,
    ast.Or: _or,
    ast.CondExpr: _condition,
    ast.Concat: _concat,
    ast.Compare: _compare,
    ast.Call: _call,
    ast.Filter: _filter,
    ast.Test: _test,
}
