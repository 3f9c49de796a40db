"""The scheduler of a run: decides what is executed next.

Plain synchronous code: nodes that the end of a node makes ready start at once, so both share a
commit.
"""

import asyncio
from collections import ChainMap, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from pipecatapp.workflow.channel import Channel
from pipecatapp.workflow.document.shapes import ShapeError
from pipecatapp.workflow.expressions import ExpressionError, Missing, render
from pipecatapp.workflow.ledger.reading import StepRow
from pipecatapp.workflow.plan import Body, Jump, Plan, PlanNode, narrowed
from pipecatapp.workflow.running.calls import Calls
from pipecatapp.workflow.running.expansion import flat_results, freeze, frozen
from pipecatapp.workflow.running.failing import RunStopped
from pipecatapp.workflow.running.frames import Failures, Frame, Rescue
from pipecatapp.workflow.running.instance import Instances
from pipecatapp.workflow.running.loops import Loop, LoopOver
from pipecatapp.workflow.running.scope import (
    Scope,
    Settled,
    begun,
    checked_inputs,
    guard,
    is_visit,
    mark_of,
    outputs_of,
    skipped,
    unmet,
)
from pipecatapp.workflow.running.waiting import PAUSE
from pipecatapp.workflow.tool import Effect, Json

Refusals = (ExpressionError, ShapeError, RunStopped, LoopOver)
"""Errors of a node before any call is made."""


class Walk:
    """Executes a plan; `ended` receives the outputs, `lost` a failure that is not handled."""

    def __init__(
        self,
        plan: Plan,
        instances: Instances,
        channel: Channel,
        *,
        ended: Callable[[Json], None],
        lost: Callable[[str | None, str], None],
    ) -> None:
        self._plan, self._instances = plan, instances
        self._journal, self._past = instances.journal, instances.past
        self._ended, self._lost = ended, lost
        self._ready: deque[tuple[Frame, Callable[[], None]]] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self._root = Frame("", None)
        self._failures = Failures(instances, self.tasks, lost=lost, go_on=self.pump)
        self._calls = Calls(
            plan, instances, channel, self.tasks, failures=self._failures, go_on=self.pump
        )

    def begin(self, inputs: Json) -> None:
        """The first nodes, and everything that follows from what the ledger already has."""

        def ended(scope: Scope) -> None:
            try:
                self._ended(outputs_of(self._plan.body, scope.names))
            except (ExpressionError, ShapeError) as error:
                self._lost(None, str(error))

        plan, grants = self._plan, self._plan.granted()
        self._open_body(
            plan, plan.body, self._root, "", inputs, (), ended, stream=True, grants=grants
        )
        self.pump()

    def end(self) -> None:
        """Start nothing more."""
        self._root.end()

    def pump(self) -> None:
        """Start everything that is ready, until only pending calls are left."""
        while self._ready:
            frame, begin = self._ready.popleft()
            if not frame.over:
                begin()

    def _soon(self, frame: Frame, begin: Callable[[], None]) -> None:
        self._ready.append((frame, begin))

    def _open_body(
        self,
        plan: Plan,
        body: Body,
        frame: Frame,
        home: str,
        inputs: Json,
        stack: tuple[str, ...],
        ended: Callable[[Scope], None],
        *,
        stream: bool,
        grants: frozenset[Effect],
    ) -> None:
        run = {"id": self._instances.run, "request": self._instances.request}
        known = {"inputs": inputs, "run": run, "project": body.project}
        names: ChainMap[str, Any] = ChainMap(known)
        mark = mark_of(body, inputs)
        grants = narrowed(grants, body.allow)
        scope = Scope(
            frame,
            home,
            body.nodes,
            names,
            stream=stream,
            stack=(*stack, mark),
            grants=grants,
            plan=plan,
        )
        self._open(scope, ended)

    def _open(self, scope: Scope, ended: Callable[[Scope], None]) -> None:
        """Start a scope; a failure recorded in the ledger is processed first."""
        scope.ended = ended
        for node in scope.nodes:
            last = scope.at(node, 0 if node.loop else node.renewals)
            past = self._past.get(last)
            if past is not None and past.status == "failed" and node.on_error == "stop":
                self._failures.fail(scope.frame, last, _why(past.error))
                return
        for node in scope.nodes:
            if not node.waits:
                self._ready_at(scope, node)
        if not scope.nodes:
            ended(scope)

    def _ready_at(self, scope: Scope, node: PlanNode) -> None:
        self._soon(scope.frame, lambda: self._begin(scope, node))

    def _settle(self, scope: Scope, node: PlanNode, state: Settled, value: Any) -> None:
        for other in scope.settle(node, state, value):
            self._ready_at(scope, other)
        if len(scope.state) == len(scope.nodes):
            scope.ended(scope)

    def _begin(self, scope: Scope, node: PlanNode) -> None:
        path, past = scope.at(node), self._past.get(scope.at(node))
        if past is not None and self._has_ended(node, past) and node.jump is None:
            self._settle(scope, node, "done", self._instances.reader.value(past.output))
            return
        frame = Frame(path, scope.frame, catch=lambda: self._rescue(scope, node))
        frame.done = lambda output: self._done(scope, node, frame, output)
        if past is not None and past.status == "failed":
            self._failures.fail(frame, path, _why(past.error))
            return
        try:
            if path in self._instances.struck and past is None:
                by = self._instances.struck[path] or "a person"
                self._skip(scope, node, frame, "skipped", f"struck off the to-do list by {by}")
            elif reason := skipped(scope, node):
                self._skip(scope, node, frame, *reason)
            elif node.jump is not None:
                self._jump(scope, node, frame, node.jump)
            elif node.loop is not None:
                self._loop(scope, node, frame)
            else:
                self._visit(scope, node, frame, scope.names_at(node))
        except Refusals as error:
            self._refuse(node, frame, scope.home_of(node), error)

    def _done(self, scope: Scope, node: PlanNode, frame: Frame, output: Any) -> None:
        if not frame.over:
            frame.end()
            self._settle(scope, node, "done", output)

    def _skip(
        self, scope: Scope, node: PlanNode, frame: Frame, state: Settled, reason: str
    ) -> None:
        frame.end()
        if frame.path not in self._past:
            self._journal.skipped(frame.path, scope.home_of(node), reason)
        self._settle(scope, node, state, Missing(f"{node.id!r} was skipped: {reason}"))

    def _refuse(self, node: PlanNode, frame: Frame, home: str, error: Exception) -> None:
        """Fail a node that cannot start, or cannot continue."""
        if frame.path not in self._instances.open:
            self._instances.begin(begun(node, frame.path, home, attempt=0), None)
        self._failures.fail(frame, frame.path, str(error), final=isinstance(error, RunStopped))

    def _rescue(self, scope: Scope, node: PlanNode) -> Rescue | None:
        """Return the continuation after a failure of this node, as its document defines it."""
        if node.loop is None and scope.tries[node.id] < node.renewals:
            return lambda: self._renew(scope, node)
        missing = Missing(f"{node.id!r} failed")
        if node.on_error == "continue":
            return lambda: self._settle(scope, node, "failed", missing)
        jump = node.rescue
        if jump is None:
            return None
        if not scope.is_back(node, jump):
            return lambda: self._pass(scope, node, jump, "failed", missing)
        if scope.jumps[node.id] >= (jump.max or 0):
            return None
        return lambda: self._ready_at(scope, scope.jump_back(node, jump))

    def _renew(self, scope: Scope, node: PlanNode) -> None:
        scope.renew(node)
        self._after(node.wait, scope.frame, lambda: self._begin(scope, node))

    def _after(self, wait: float, frame: Frame, begin: Callable[[], None]) -> None:
        """Start something later, if the frame has not ended by then."""

        def over() -> None:
            self._soon(frame, begin)
            self.pump()

        frame.after(wait, over)

    def _pass(self, scope: Scope, node: PlanNode, jump: Jump, state: Settled, value: Any) -> None:
        scope.pass_over(node, jump)
        self._settle(scope, node, state, value)

    def _jump(self, scope: Scope, node: PlanNode, frame: Frame, jump: Jump) -> None:
        back = scope.is_back(node, jump)
        if not back or scope.jumps[node.id] < (jump.max or 0) + scope.more[node.id]:
            frame.end()
            self._jumped(scope, node, frame.path, jump)
            if back:
                self._ready_at(scope, scope.jump_back(node, jump))
            else:
                self._pass(scope, node, jump, "done", {"to": jump.to})
            return
        reason = f"it has jumped back {scope.jumps[node.id]} times, which is its `max`"
        if jump.on_max == "fail":
            raise LoopOver(reason)
        if jump.on_max == "continue":
            self._skip(scope, node, frame, "skipped", reason)
            return

        def allowed(more: int) -> None:
            scope.more[node.id] += more
            if more:
                self._jump(scope, node, frame, jump)
            else:
                self._skip(scope, node, frame, "skipped", reason)

        self._calls.ask_more(frame, scope.home_of(node), frame.path, reason, allowed)

    def _jumped(self, scope: Scope, node: PlanNode, path: str, jump: Jump) -> None:
        if path not in self._past:
            self._instances.begin(begun(node, path, scope.home_of(node), attempt=0), None)
            self._instances.done(path, {"to": jump.to})

    def _loop(self, scope: Scope, node: PlanNode, frame: Frame) -> None:
        if node.loop is None:
            return
        home = scope.home_of(node)
        self._enter(node, frame, home, None)

        def end(output: Json) -> None:
            self._instances.done(frame.path, output)
            frame.done(output)

        def visit(index: int, names: Any) -> None:
            self._visit_of(loop, scope, frame, (index, 0), names)

        def ask(index: int, reason: str, answered: Callable[[int], None]) -> None:
            self._calls.ask_more(frame, home, f"{frame.path}[{index}]", reason, answered)

        loop = Loop(node, node.loop, scope.names_at(node), visit=visit, end=end, ask=ask)
        self._go_on(loop, node, frame, home)

    def _go_on(self, loop: Loop, node: PlanNode, frame: Frame, home: str) -> None:
        def go_on() -> None:
            try:
                loop.go_on()
            except Refusals as error:
                self._refuse(node, frame, home, error)

        self._soon(frame, go_on)

    def _visit_of(
        self, loop: Loop, scope: Scope, frame: Frame, at: tuple[int, int], names: Any
    ) -> None:
        """One visit, `at` its index and its tries before; null for one that fails and may."""
        index, tries = at
        node, home = loop.node, scope.home_of(loop.node)
        path = f"{frame.path}[{index}]" + (f"#{tries + 1}" if tries else "")

        def gave(output: Any) -> None:
            if not visit.over:
                visit.end()
                missed(output)

        def missed(output: Any = None) -> None:
            loop.gave(index, output)
            self._go_on(loop, node, frame, home)

        again = partial(self._visit_of, loop, scope, frame, (index, tries + 1), names)

        def caught() -> Rescue | None:
            if tries < node.renewals:
                return lambda: self._after(node.wait, frame, again)
            return missed if node.on_error == "continue" else None

        visit = Frame(path, frame, done=gave, catch=caught)
        self._open_visit(scope, node, visit, names)

    def _open_visit(self, scope: Scope, node: PlanNode, visit: Frame, names: Any) -> None:
        past = self._past.get(visit.path)
        if past is not None and self._has_ended(node, past):
            visit.done(self._instances.reader.value(past.output))
        elif past is not None and past.status == "failed":
            self._failures.fail(visit, visit.path, _why(past.error))
        else:
            try:
                self._visit(scope, node, visit, names)
            except Refusals as error:
                self._refuse(node, visit, scope.home_of(node), error)

    def _call(self, scope: Scope, node: PlanNode, frame: Frame, names: Any) -> None:
        """Call the tool of a node, once a model is ready if it needs one."""
        home, stream = scope.home_of(node), scope.stream and node.stream
        if self._calls.awaits_models(node):
            self._after(PAUSE, frame, partial(self._call, scope, node, frame, names))
            return
        try:
            self._calls.call(node, frame, home, names, stream=stream, grants=scope.grants)
        except Refusals as error:
            self._refuse(node, frame, home, error)

    def _visit(self, scope: Scope, node: PlanNode, frame: Frame, names: Any) -> None:
        """Run a node once: call its tool, or start its inner nodes."""
        path, home = frame.path, scope.home_of(node)
        stream = scope.stream and node.stream
        if node.workspace == "fork":
            self._fork(frame, home)
        if (past := self._past.get(path)) is not None and past.status == "done":
            frame.done(self._instances.reader.value(past.output))
            return
        if node.kind in ("use", "agent"):
            self._call(scope, node, frame, names)
            return
        if node.kind == "plan":
            self._open_plan(scope, node, frame, names)
            return
        given = render(node.given, names)
        self._enter(node, frame, home, given if node.kind == "workflow" else None)
        self._limit(frame, node)
        if node.kind != "workflow":
            inner = Scope(
                frame,
                home,
                node.nodes,
                names,
                around=scope,
                stream=stream,
                stack=scope.stack,
                grants=scope.grants,
                plan=scope.plan,
            )
            self._open(inner, lambda ended: self._end_visit(node, frame, names, ended.results()))
            return
        body = scope.plan.bodies[node.use.removeprefix("workflow/")]
        self._open_nested(scope, node, frame, names, scope.plan, body, given)

    def _open_plan(self, scope: Scope, node: PlanNode, frame: Frame, names: Any) -> None:
        """Open a workflow that was written in this run, as it was when its step began."""
        home, known = scope.home_of(node), self._instances
        given = frozen(self._past.get(frame.path), known.reader.value)
        if given is None:
            given = freeze(render(node.given, names), known.compiled, scope.grants)
        self._enter(node, frame, home, given)
        self._limit(frame, node)
        plan = Plan.model_validate(given["plan"])
        try:
            plan.check_tools(known.tools)
        except LookupError as error:
            raise ShapeError(f"the plan cannot run: {error}") from error
        known.known.share(frame.path, home)
        self._open_nested(scope, node, frame, names, plan, plan.body, given["inputs"])

    def _open_nested(
        self,
        scope: Scope,
        node: PlanNode,
        frame: Frame,
        names: Any,
        plan: Plan,
        body: Body,
        given: Json,
    ) -> None:
        """Open a workflow inside this one; its outputs, and of a plan its steps, end the node."""
        inputs = checked_inputs(body, given)
        guard(body, inputs, scope.stack, deepest=self._plan.limits.depth)

        def ended(inside: Scope) -> None:
            try:
                results = outputs_of(body, inside.names)
            except (ExpressionError, ShapeError) as error:
                self._failures.fail(frame, frame.path, str(error))
                return
            if node.kind == "plan":
                results = {"outputs": results, "steps": flat_results(inside)}
            self._end_visit(node, frame, names, results)

        self._open_body(
            plan,
            body,
            frame,
            scope.home_of(node),
            inputs,
            scope.stack,
            ended,
            stream=scope.stream and node.stream,
            grants=narrowed(scope.grants, plan.grants),
        )

    def _fork(self, frame: Frame, home: str) -> None:
        """Run the frame in a separate folder, which is merged when it is done."""
        done = frame.done
        self._instances.trees.fork(frame.path)
        frame.done = lambda output: self._calls.merge(frame, home, lambda: done(output))

    def _has_ended(self, node: PlanNode, past: StepRow) -> bool:
        """Whether a node, or a visit of it, is done by the ledger, with the merge that follows."""
        merged = self._past.get(f"{past.path}/merge")
        used = node.workspace == "fork" and self._instances.trees.is_used(past.path)
        waits = used and (node.loop is None or is_visit(past.path))
        return past.status == "done" and (
            not waits or (merged is not None and merged.status == "done")
        )

    def _end_visit(self, node: PlanNode, frame: Frame, names: Any, output: Json) -> None:
        try:
            reason = unmet(node, names, output)
        except ExpressionError as error:
            reason = f"check: {error}"
        if reason is not None:
            self._failures.fail(frame, frame.path, reason)
            return
        self._instances.done(frame.path, output)
        frame.done(output)

    def _enter(self, node: PlanNode, frame: Frame, home: str, given: Any) -> None:
        """Record the start of a node that contains other nodes, unless it was recorded before."""
        if frame.path not in self._past:
            self._instances.count(frame.path, nodes=1)
            self._instances.begin(begun(node, frame.path, home), given)

    def _limit(self, frame: Frame, node: PlanNode) -> None:
        if node.timeout is not None:
            reason = f"took longer than {node.timeout:g} s"
            frame.timer = asyncio.get_running_loop().call_later(
                node.timeout, self._too_long, frame, reason
            )

    def _too_long(self, frame: Frame, reason: str) -> None:
        self._failures.fail(frame, frame.path, reason)
        self.pump()


def _why(error: str | None) -> str:
    return error or "failed before the restart"
