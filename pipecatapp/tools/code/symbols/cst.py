"""Definitions of Python files, by libcst."""

from collections.abc import Sequence
from typing import Final

import libcst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from pipecatapp.tools.code.symbols.definition import Definition, Kind

DEEPEST: Final = 200
"""Brackets inside each other in a file that is parsed; libcst recurses."""
DEEPEST_BLOCK: Final = 400
"""Columns of indentation in a file that is parsed."""


def parse_python(text: str) -> libcst.Module:
    """Parse a file. Raises `SyntaxError`, also for one that nests too deep."""
    if _depth(text) > DEEPEST or _indentation(text) > DEEPEST_BLOCK:
        raise SyntaxError("the code is nested too deep")
    try:
        return libcst.parse_module(text)
    except libcst.ParserSyntaxError as error:
        raise SyntaxError(f"{error.message} (line {error.raw_line})") from None
    except (libcst.CSTLogicError, ValueError, TypeError, AttributeError) as error:
        raise SyntaxError(str(error)) from None


def python_definitions(text: str) -> list[Definition]:
    """Classes, functions and methods, in the order of the file. Raises `SyntaxError`."""
    visitor = _Definitions()
    MetadataWrapper(parse_python(text), unsafe_skip_copy=True).visit(visitor)
    return visitor.found


class _Definitions(libcst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Definition] = []
        self._around: list[libcst.ClassDef | libcst.FunctionDef] = []

    def visit_ClassDef(self, node: libcst.ClassDef) -> None:
        self._enter(node, node.decorators)

    def visit_FunctionDef(self, node: libcst.FunctionDef) -> None:
        self._enter(node, node.decorators)

    def leave_ClassDef(self, original_node: libcst.ClassDef) -> None:
        self._around.pop()

    def leave_FunctionDef(self, original_node: libcst.FunctionDef) -> None:
        self._around.pop()

    def _enter(
        self, node: libcst.ClassDef | libcst.FunctionDef, decorators: Sequence[libcst.Decorator]
    ) -> None:
        first = self._range(decorators[0] if decorators else node)
        name = self._range(node.name)
        names = [one.name.value for one in (*self._around, node)]
        self.found.append(
            Definition(
                name=names[-1],
                qualified=".".join(names),
                kind=self._kind(node),
                start=min(first.start.line, self._range(node).start.line),
                line=name.start.line,
                end=self._range(node).end.line,
            )
        )
        self._around.append(node)

    def _kind(self, node: libcst.ClassDef | libcst.FunctionDef) -> Kind:
        if isinstance(node, libcst.ClassDef):
            return "class"
        return "method" if self._around and isinstance(self._around[-1], libcst.ClassDef) else (
            "function"
        )  # fmt: skip

    def _range(self, node: libcst.CSTNode) -> CodeRange:
        found: CodeRange = self.get_metadata(PositionProvider, node)
        return found


def _depth(text: str) -> int:
    """An upper limit of the nesting of brackets, those in strings included."""
    depth = deepest = 0
    for letter in text:
        if letter in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in ")]}":
            depth = max(0, depth - 1)
    return deepest


def _indentation(text: str) -> int:
    return max((len(line) - len(line.lstrip()) for line in text.splitlines()), default=0)
