"""Small mistakes of logic: an operator, a comparison, a number, a condition, two arguments.

One place is changed at a time, as in mutation-based repair (Debroy and Wong, "Using mutation to
automatically suggest fixes for faulty programs", ICST 2010). Whether a change is right is left to
the tests.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pipecatapp.tools.code.fix.problem import Candidate

COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, ...]]] = {
    ast.Lt: ("<=", ">"), ast.LtE: ("<", ">="), ast.Gt: (">=", "<"), ast.GtE: (">", "<="),
    ast.Eq: ("!=",), ast.NotEq: ("==",), ast.Is: ("is not",), ast.IsNot: ("is",),
    ast.In: ("not in",), ast.NotIn: ("in",),  # codespell:ignore notin
}  # fmt: skip
OPERATORS: Final[dict[type[ast.operator], tuple[str, ...]]] = {
    ast.Add: ("-",), ast.Sub: ("+",), ast.Mult: ("/", "//", "+"), ast.Div: ("*", "//"),
    ast.FloorDiv: ("*", "/", "%"), ast.Mod: ("//",), ast.BitOr: ("&",), ast.BitAnd: ("|",),
}  # fmt: skip
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
OPERATOR: Final = re.compile(rb"not\s+in|is\s+not|in|is|and|or|<=|>=|==|!=|//|\*\*|[<>+\-*/%|&]")


@dataclass(frozen=True)
class Replacement:
    """Bytes of a file and what may stand there instead."""

    start: int
    end: int
    new: bytes


def logic(source: str, line: int) -> Iterator[Candidate]:
    """Yield changes of the innermost function with this line; none if the file does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    data = source.encode()
    starts = [0]
    for one in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(one))
    function = _innermost(tree, line)
    if function is None:
        return
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    places = _Places(data, starts)
    for kind in (places.comparisons, places.operators, places.numbers, places.conditions,
                 places.arguments):  # fmt: skip
        for node in nodes:
            if isinstance(node, ast.expr):
                for found in kind(node):
                    yield _candidate(data, starts, node.lineno, found)


def _innermost(tree: ast.AST, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function that begins last among those with the line, decorators included."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS)
        and min([node.lineno, *(one.lineno for one in node.decorator_list)]) <= line
        and line <= (node.end_lineno or 0)
    ]
    return max(found, key=lambda one: one.lineno, default=None)


def _candidate(data: bytes, starts: list[int], line: int, found: Replacement) -> Candidate:
    text = (data[: found.start] + found.new + data[found.end :]).decode()
    old = data[starts[line - 1] : starts[line]].decode(errors="replace").strip()
    new = text.splitlines()[line - 1].strip()
    return Candidate("logic", f"line {line}: {old!r} becomes {new!r}", text)


class _Places:
    """Finds what may be replaced in expressions of one file."""

    def __init__(self, data: bytes, starts: list[int]) -> None:
        self._data, self._starts = data, starts

    def comparisons(self, node: ast.expr) -> Iterator[Replacement]:
        """Exchange a comparison."""
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
                yield from self._between(left, right, COMPARISONS[type(op)])

    def operators(self, node: ast.expr) -> Iterator[Replacement]:
        """Exchange an operator."""
        if isinstance(node, ast.BinOp):
            yield from self._between(node.left, node.right, OPERATORS.get(type(node.op), ()))

    def numbers(self, node: ast.expr) -> Iterator[Replacement]:
        """Subtract or add one; exchange True and False."""
        if isinstance(node, ast.Constant):
            start, end = self._span(node)
            if isinstance(node.value, bool):
                yield Replacement(start, end, str(not node.value).encode())
            elif isinstance(node.value, int):
                yield Replacement(start, end, str(node.value - 1).encode())
                yield Replacement(start, end, str(node.value + 1).encode())

    def conditions(self, node: ast.expr) -> Iterator[Replacement]:
        """Exchange and/or; remove a `not`."""
        if isinstance(node, ast.BoolOp):
            new = "or" if isinstance(node.op, ast.And) else "and"
            spans = zip(node.values, node.values[1:], strict=False)
            both = [found for left, right in spans for found in self._between(left, right, (new,))]
            if len(both) == 1:
                yield both[0]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield Replacement(self._span(node)[0], self._span(node.operand)[0], b"")

    def arguments(self, node: ast.expr) -> Iterator[Replacement]:
        """Exchange the first two arguments of a call."""
        if isinstance(node, ast.Call) and len(node.args) > 1:
            (start, middle), (again, end) = self._span(node.args[0]), self._span(node.args[1])
            first, second = self._data[start:middle], self._data[again:end]
            if first != second and b"*" not in (first[:1], second[:1]):
                yield Replacement(start, end, second + self._data[middle:again] + first)

    def _between(
        self, left: ast.expr, right: ast.expr, new: tuple[str, ...]
    ) -> Iterator[Replacement]:
        """Replace the operator between two operands, which may stand in brackets."""
        start, end = self._span(left)[1], self._span(right)[0]
        found = OPERATOR.search(self._data, start, end)
        if found:
            yield from (Replacement(*found.span(), one.encode()) for one in new)

    def _span(self, node: ast.expr) -> tuple[int, int]:
        """First byte and the byte after the last."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset
