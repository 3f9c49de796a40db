"""Checks of the reads of a document: names, inputs and types of values."""

from collections.abc import Collection, Iterable
from typing import Any

from pipecatapp.workflow.compiling import checks
from pipecatapp.workflow.compiling.library import Entry, Library
from pipecatapp.workflow.compiling.names import TEXT, Visible
from pipecatapp.workflow.document import Workflow
from pipecatapp.workflow.document.diagnostic import did_you_mean
from pipecatapp.workflow.document.shapes import ShapeError, fits, look_up, shape
from pipecatapp.workflow.document.yaml_text import Path
from pipecatapp.workflow.expressions import ExpressionError, Read, expression, expressions
from pipecatapp.workflow.tool import Json

HINTS = 100
"""Faults of a document up to which each has its hint."""


class Reads:
    """Checks what the values of one document read; faults go to the library."""

    def __init__(self, library: Library, workflow: Workflow) -> None:
        self.library, self.workflow, self.document = library, workflow, workflow.document

    def _read_all(self, path: Path, value: Any, visible: Visible) -> list[Read]:
        """Everything a value reads, each checked."""
        reads: list[Read] = []
        for at, source in expressions(value):
            try:
                found = expression(source)
            except ExpressionError as error:
                self._fault((*path, *at), f"not an expression: {error}")
                continue
            for read in found.reads:
                if self._check_read((*path, *at), read, visible):
                    reads.append(read)
        return reads

    def _check_read(self, path: Path, read: Read, visible: Visible) -> bool:
        name = str(read.path[0])
        if reason := visible.barred.get(name):
            self._fault(path, f"{name!r} cannot be read here: {reason}")
        elif name not in visible.known:
            known = (other for other in visible.known if other not in visible.barred)
            self._fault(path, f"there is no {name!r} here", self._near(name, known))
        else:
            try:
                look_up(visible.known[name], read.path[1:], visible.known[name])
            except ShapeError as error:
                self._fault(path, f"{read}: {error}")
                return name not in ("inputs", "run")
            return True
        return False

    def _check_needs(self, entry: Entry, siblings: set[str], visible: Visible) -> None:
        for index, name in enumerate(entry.node.needs):
            if name not in siblings:
                self._fault(
                    (*entry.path, "needs", index),
                    f"there is no {name!r} here",
                    self._near(name, siblings),
                )
            elif reason := visible.barred.get(name):
                self._fault(
                    (*entry.path, "needs", index), f"{name!r} cannot be needed here: {reason}"
                )

    def _check_modifiers(self, entry: Entry, what: str, *, takes: Collection[str]) -> None:
        for key in ("model", "prompt", "returns"):
            if getattr(entry.node, key) and key not in takes:
                self._fault(
                    (*entry.path, key), f"{what} does not take `{key}`", "Remove it", key=True
                )

    def _check_kinds(self, path: Path, given: Json, schema: Json, visible: Visible) -> None:
        """An expression whose kind is known must fit the input it fills."""
        for at, source in expressions(given):
            try:
                wanted = look_up(schema, at, schema)
                kind, root = self._kind(source, visible)
            except (ShapeError, ExpressionError):
                continue
            if not fits(kind, wanted, given_root=root, wanted_root=schema):
                takes, gives = wanted.get("type", "another type"), kind.get("type")
                told = f"{at[-1]!r} takes {takes}, but this is {gives}"
                self._fault((*path, "with", *at), told)

    def _kind(self, source: str, visible: Visible) -> tuple[Json, Json]:
        found = expression(source)
        if not found.native:
            return TEXT, TEXT
        root = visible.known.get(str(found.only.path[0]), {}) if found.only else {}
        return look_up(root, found.only.path[1:] if found.only else (), root), root

    def _near(self, name: str, known: Iterable[str]) -> str:
        """Return a hint at a similar name. Comparing with all names is slow, and a document with
        many errors usually repeats one of them, so only the first errors get a hint.
        """
        return did_you_mean(name, list(known)) if len(self.library.faults) < HINTS else ""

    def _typed(self, path: Path, shorthand: Any, value: Any) -> None:
        try:
            shape(shorthand).check(value)
        except ShapeError as error:
            self._fault(path, str(error))

    def _found(self, path: Path, findings: Iterable[checks.Finding]) -> None:
        for found in findings:
            self._fault((*path, *found.path), found.message, found.mend, key=found.key)

    def _fault(self, path: Path, message: str, mend: str = "", *, key: bool = False) -> None:
        self.library.faults.append(self.workflow.source.diagnostic(path, message, mend, key=key))
