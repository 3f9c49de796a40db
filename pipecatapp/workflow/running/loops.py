"""Loops: a node visited for each item, while something is true, or until it is."""

from collections.abc import Callable
from typing import Any

from pipecatapp.workflow.expressions import ExpressionError, render
from pipecatapp.workflow.ledger.values import canonical
from pipecatapp.workflow.plan import PlanLoop, PlanNode
from pipecatapp.workflow.running.scope import loop_names
from pipecatapp.workflow.tool import Json

MOST_ITEMS = 100_000


class LoopOver(Exception):
    """A loop has reached its `max`, or is stuck, and its document treats that as a failure."""


class Loop:
    """All iterations of one node.

    `visit(index, names, done)` starts one; the loop decides which is next, and collects the
    outputs.
    """

    def __init__(
        self,
        node: PlanNode,
        plan: PlanLoop,
        names: Any,
        *,
        visit: Callable[[int, Any], None],
        end: Callable[[Json], None],
        ask: Callable[[int, str, Callable[[int], None]], None],
    ) -> None:
        self.node, self.plan, self.names = node, plan, names
        self._visit, self._end, self._ask = visit, end, ask
        self._items = self._listed() if plan.kind == "for" else []
        self._max = plan.max or 0
        self._gave: dict[int, Any] = {}
        self._next = 0
        self._marks: dict[str, int] = {}

    def _listed(self) -> list[Any]:
        items = render(self.plan.over, self.names)
        if not isinstance(items, list):
            raise ExpressionError(f"`for` takes a list, not {items!r:.80}")
        if len(items) > MOST_ITEMS:
            raise ExpressionError(f"`for` takes {MOST_ITEMS} items at most, not {len(items)}")
        return items

    def go_on(self) -> None:
        """Start the iterations that can start now, or end; raises `LoopOver`."""
        if self.plan.kind != "for":
            self._go_on_while()
            return
        running = self._next - len(self._gave)
        while self._next < len(self._items) and running < self.plan.parallel:
            index, self._next, running = self._next, self._next + 1, running + 1
            self._visit(index, self._names(index))
        if len(self._gave) == len(self._items):
            self.finish()

    def gave(self, index: int, output: Any) -> None:
        """A visit has ended."""
        self._gave[index] = output

    def finish(self) -> None:
        """Return the outputs of the iterations, in order."""
        visits = [self._gave[index] for index in sorted(self._gave)]
        last = visits[-1] if visits else None
        self._end({"all": visits, "last": last, "count": len(visits)})

    def _go_on_while(self) -> None:
        index, names = self._next, self._names(self._next)
        if self._is_over(index, names):
            self.finish()
        elif index and (before := self._stuck(index)):
            self._at_max(f"it is stuck: visits {before} and {index} ended alike")
        elif index >= self._max:
            self._at_max(f"after {index} visits, which is its `max`, it is not over")
        else:
            self._next += 1
            self._visit(index, names)

    def _is_over(self, index: int, names: Any) -> bool:
        if self.plan.kind == "while":
            return not self._met(self.plan.over, names)
        return index > 0 and self._met(self.plan.over, self._after(index))

    def _at_max(self, reason: str) -> None:
        if self.plan.on_max == "continue":
            self.finish()
        elif self.plan.on_max == "ask":
            self._ask(self._next, reason, self._answered)
        else:
            raise LoopOver(reason)

    def _answered(self, more: int) -> None:
        """Apply a person's answer on the number of additional iterations."""
        self._max = max(self._max, self._next) + more
        self._marks.clear()
        if not more:
            self.finish()
        else:
            self._next += 1
            self._visit(self._next - 1, self._names(self._next - 1))

    def _names(self, index: int) -> Any:
        found: Json = {"loop": loop_names(self.names, index)}
        if self.plan.kind == "for":
            found[self.plan.name] = self._items[index]
        if self.plan.parallel == 1:
            found["prev"] = self._gave.get(index - 1)
        return self.names.new_child(found)

    def _after(self, index: int) -> Any:
        """Return the names that can be read after iteration `index - 1`: its output and its
        parts."""
        output = self._gave[index - 1]
        names = self._names(index - 1)
        made = output if self.node.nodes and isinstance(output, dict) else {}
        return names.new_child({**made, self.node.id: output})

    def _met(self, condition: Any, names: Any) -> bool:
        met = render(condition, names)
        if not isinstance(met, bool):
            word = self.plan.kind
            raise ExpressionError(f"`{word}` must be true or false, not {met!r:.80}")
        return met

    def _stuck(self, index: int) -> int | None:
        """Return the number of the earlier visit that gave the same `stuck_on`, from 1."""
        if self.plan.stuck_on is None:
            return None
        mark = canonical(render(self.plan.stuck_on, self._after(index)))
        before = self._marks.get(mark)
        self._marks[mark] = index
        return before
