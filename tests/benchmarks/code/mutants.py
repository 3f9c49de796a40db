"""Small wrong changes of functions: a comparison, an operator, a number, a condition, arguments."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,  # codespell:ignore notin
}  # fmt: skip
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Mutant:
    """One wrong change of a file, and the function that has it."""

    path: str
    symbol: str
    line: int
    start: int
    end: int
    new: str

    def applied(self, source: str) -> str | None:
        """Return the file with the change; None where it does not parse, as in an f-string."""
        data = source.encode()
        text = (data[: self.start] + self.new.encode() + data[self.end :]).decode()
        try:
            ast.parse(text)
        except SyntaxError:
            return None
        return text


def mutants(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its lines."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[tuple[int, int, str], Mutant] = {}
    for symbol, function in _functions(ast.parse(source), ""):
        for node in _body(function):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
            for changed in _changes(node):
                new = f"({ast.unparse(changed)})"
                mutant = Mutant(path, symbol, node.lineno, start, end, new)
                found.setdefault((start, end, new), mutant)
    return sorted(found.values(), key=lambda one: (one.start, one.end, one.new))


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield functions and methods, without those inside another function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FUNCTIONS):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.If | ast.Try):
            yield from _functions(child, prefix)


def _body(function: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of a function's statements, without decorators and annotations."""
    assert isinstance(function, FUNCTIONS)
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.expr):
                yield node


def _changes(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what may stand in place of an expression."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield ast.Compare(node.left, [COMPARISONS[type(op)]()], node.comparators)
        case ast.BinOp(op=op) if type(op) in OPERATORS and not isinstance(node.left, ast.Constant):
            yield ast.BinOp(node.left, OPERATORS[type(op)](), node.right)
        case ast.BoolOp(op=op):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant(value=int(value)):
            yield ast.Constant(not value if isinstance(value, bool) else value + 1)
        case ast.Call():
            yield from _arguments(node)


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    """Exchange the first two arguments."""
    if len(call.args) >= 2 and not any(isinstance(one, ast.Starred) for one in call.args):
        first, second, *others = call.args
        if ast.dump(first) != ast.dump(second):
            yield ast.Call(call.func, [second, first, *others], call.keywords)
