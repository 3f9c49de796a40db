"""One run being executed.

Deciding what comes next is plain synchronous code: when a node ends, whatever it made ready begins
in the same moment, so the end of one and the start of the next share a commit. Only calls of tools
wait.
"""

import asyncio
from collections import ChainMap, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog

from pipecatapp.workflow.channel import Channel
from pipecatapp.workflow.document.shapes import ShapeError, shape
from pipecatapp.workflow.expressions import (
    ExpressionError,
    Missing,
    expression,
    expressions,
    render,
)
from pipecatapp.workflow.ledger.errors import LedgerFailed
from pipecatapp.workflow.ledger.journal import Begun, Ending
from pipecatapp.workflow.ledger.values import canonical
from pipecatapp.workflow.plan import Body, Plan, PlanNode
from pipecatapp.workflow.running.instance import Instances, Place, log_bug, place_of, reason_of
from pipecatapp.workflow.running.prompting import typed_answer, with_messages
from pipecatapp.workflow.tool import Json
from pipecatapp.workflow.views import RunResult

_log = structlog.get_logger()

DEEPEST = 8
"""How many workflows may stand inside each other."""
GRACE = 10.0
"""Seconds a tool has to end after it was cancelled."""

Settled = Literal["done", "skipped", "unmet"]
"""`unmet`: skipped because its own `if` was false, so its `else` list runs."""


@dataclass(frozen=True)
class _Ending:
    status: Literal["done", "failed", "cancelled", "suspended"]
    outputs: Json = field(default_factory=dict)
    path: str | None = None
    reason: str = ""


class _Scope:
    """A scope at one place of the run: what of it has ended, and what the names in it stand for."""

    def __init__(
        self,
        path: str,
        nodes: tuple[PlanNode, ...],
        around: "_Scope | None",
        *,
        given: Json,
        stream: bool,
        stack: tuple[str, ...],
        ended: Callable[["_Scope"], None],
    ) -> None:
        self.path, self.nodes, self.stream, self.stack, self.ended = (
            path,
            nodes,
            stream,
            stack,
            ended,
        )
        self.around = around
        self.values: Json = {}
        self.names: ChainMap[str, Any] = (
            around.names.new_child(self.values) if around else ChainMap(self.values, given)
        )
        self.state: dict[str, Settled] = {}
        self.waits = {node.id: set(node.waits) for node in nodes}

    def at(self, node: PlanNode) -> str:
        return f"{self.path}/{node.id}" if self.path else node.id

    def settle(self, node: PlanNode, state: Settled, value: Any) -> list[PlanNode]:
        """Note how a node ended; gives the nodes that are ready now."""
        self.state[node.id], self.values[node.id] = state, value
        ready = []
        for other in self.nodes:
            left = self.waits[other.id]
            if node.id in left:
                left.discard(node.id)
                if not left:
                    ready.append(other)
        return ready

    def ended_as(self, name: str) -> Settled | None:
        """How the node of that name ended, here or around here."""
        return self.state.get(name) or (self.around.ended_as(name) if self.around else None)

    def results(self) -> Json:
        """What the scope gives: the outputs of those of its nodes that ran."""
        return {name: self.values[name] for name, state in self.state.items() if state == "done"}


class Execution:
    """Takes a plan from its first node, or from where its ledger stops, to its end."""

    def __init__(self, plan: Plan, inputs: Json, instances: Instances, channel: Channel) -> None:
        self._plan, self._inputs, self._instances = plan, inputs, instances
        self.run, self.channel = instances.run, channel
        self._journal, self._past = instances.journal, instances.past
        self._ready: deque[tuple[_Scope, PlanNode]] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._ending: asyncio.Future[_Ending] = asyncio.get_running_loop().create_future()
        self._journal.broken.add_done_callback(
            lambda broken: self._fail(None, str(broken.result()))
        )

    def begin(self) -> None:
        """Start what can start."""
        wall = self._instances.limits.wall
        if wall is not None:
            self._later(
                "",
                wall - self._instances.spent.seconds,
                f"limits.wall is {wall:g} s, and they are over",
            )
        self._open_body(self._plan.body, "", self._inputs, (), self._end_run, stream=True)
        self._pump()

    async def finish(self) -> RunResult:
        """Wait for the end, clear up, and write it down."""
        ending = await self._ending
        for timer in self._timers.values():
            timer.cancel()
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls, timeout=GRACE)
        if ending.status == "suspended":
            return RunResult(run=self.run, status="cancelled", error="left to be resumed")
        try:
            return await self._written(ending, ending.status)
        except LedgerFailed as error:
            return await self._unwritten(str(error))

    async def _written(self, ending: _Ending, status: Ending) -> RunResult:
        """The result, once it is on the disk with everything that led to it."""
        reason = ending.reason if ending.path is None else f"{ending.path}: {ending.reason}"
        self._instances.close(ending.path, ending.reason)
        self._journal.end(status, outputs=ending.outputs, error=reason or None)
        await self._journal.durable()
        return RunResult(run=self.run, status=status, outputs=ending.outputs, error=reason or None)

    async def _unwritten(self, reason: str) -> RunResult:
        """The run fails because its ledger did; if not even that can be written, it will resume."""
        try:
            self._journal.end("failed", error=reason, broken=True)
            await self._journal.durable()
        except LedgerFailed as error:
            _log.error("run_end_not_written", run=self.run, error=str(error))
        return RunResult(run=self.run, status="failed", error=reason)

    def cancel(self) -> None:
        """End the run as cancelled."""
        self._end(_Ending("cancelled"))

    def suspend(self) -> None:
        """Stop here; the run resumes with the next engine."""
        self._instances.suspended = True
        self._end(_Ending("suspended"))

    def _end(self, ending: _Ending) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)

    def _fail(self, path: str | None, reason: str) -> None:
        self._end(_Ending("failed", path=path, reason=reason))

    def _end_run(self, scope: _Scope) -> None:
        try:
            self._end(_Ending("done", _outputs(self._plan.body, scope.names)))
        except (ExpressionError, ShapeError) as error:
            self._fail(None, str(error))

    def _later(self, path: str, seconds: float | None, reason: str) -> None:
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._timers[path] = loop.call_later(
                max(0.0, seconds), self._fail, path or None, reason
            )

    def _open_body(
        self,
        body: Body,
        path: str,
        inputs: Json,
        stack: tuple[str, ...],
        ended: Callable[[_Scope], None],
        *,
        stream: bool,
    ) -> None:
        run = {"id": self.run, "request": self._instances.request}
        given = {"inputs": inputs, "run": run}
        mark = f"{body.id} {canonical(inputs)}"
        self._open(
            _Scope(
                path,
                body.nodes,
                None,
                given=given,
                stream=stream,
                stack=(*stack, mark),
                ended=ended,
            )
        )

    def _open(self, scope: _Scope) -> None:
        self._ready.extend((scope, node) for node in scope.nodes if not node.waits)
        if not scope.nodes:
            scope.ended(scope)

    def _pump(self) -> None:
        """Begin everything that is ready, until only calls are left to wait for."""
        while self._ready and not self._ending.done():
            self._begin(*self._ready.popleft())

    def _settle(self, scope: _Scope, node: PlanNode, state: Settled, value: Any) -> None:
        if timer := self._timers.pop(scope.at(node), None):
            timer.cancel()
        self._ready.extend((scope, other) for other in scope.settle(node, state, value))
        if len(scope.state) == len(scope.nodes):
            scope.ended(scope)

    def _begin(self, scope: _Scope, node: PlanNode) -> None:
        path, past = scope.at(node), self._past.get(scope.at(node))
        if past is not None and past.status == "done":
            self._settle(scope, node, "done", self._instances.reader.value(past.output))
        elif past is not None and past.status == "failed":
            self._fail(path, past.error or "failed before the restart")
        else:
            try:
                if skipped := _skipped(scope, node):
                    self._skip(scope, node, *skipped)
                else:
                    self._start(scope, node, path)
            except (ExpressionError, ShapeError) as error:
                self._refuse(node, path, str(error))

    def _skip(self, scope: _Scope, node: PlanNode, state: Settled, reason: str) -> None:
        path = scope.at(node)
        if path not in self._past:
            self._journal.skipped(path, path, reason)
        self._settle(scope, node, state, Missing(f"{node.id!r} was skipped: {reason}"))

    def _refuse(self, node: PlanNode, path: str, reason: str) -> None:
        """A node that cannot even begin."""
        if path not in self._instances.open:
            self._instances.begin(_begun(node, path), None)
        self._fail(path, reason)

    def _start(self, scope: _Scope, node: PlanNode, path: str) -> None:
        given = self._input(scope, node)
        if node.kind in ("use", "agent"):
            self._call(scope, node, path, given)
            return
        if path in self._past:
            self._instances.open[path] = path
        else:
            self._instances.begin(_begun(node, path), given if node.kind == "workflow" else None)
        self._later(path, node.timeout, f"took longer than {node.timeout or 0:g} s")
        stream = scope.stream and node.stream
        if node.kind != "workflow":
            self._open(
                _Scope(
                    path,
                    node.nodes,
                    scope,
                    given={},
                    stream=stream,
                    stack=scope.stack,
                    ended=self._end_scope(scope, node),
                )
            )
            return
        body = self._plan.bodies[node.use.removeprefix("workflow/")]
        inputs = checked_inputs(body, given)
        self._guard(body, inputs, scope.stack)
        self._open_body(
            body, path, inputs, scope.stack, self._end_workflow(scope, node, body), stream=stream
        )

    def _end_scope(self, outer: _Scope, node: PlanNode) -> Callable[[_Scope], None]:
        def ended(scope: _Scope) -> None:
            results = scope.results()
            self._instances.done(scope.path, results)
            self._settle(outer, node, "done", results)

        return ended

    def _end_workflow(self, outer: _Scope, node: PlanNode, body: Body) -> Callable[[_Scope], None]:
        def ended(scope: _Scope) -> None:
            try:
                results = _outputs(body, scope.names)
            except (ExpressionError, ShapeError) as error:
                self._fail(scope.path, str(error))
            else:
                self._instances.done(scope.path, results)
                self._settle(outer, node, "done", results)

        return ended

    def _guard(self, body: Body, inputs: Json, stack: tuple[str, ...]) -> None:
        if f"{body.id} {canonical(inputs)}" in stack:
            raise ShapeError(
                f"the workflow {body.id!r} would run inside itself with the same inputs"
            )
        if len(stack) >= DEEPEST:
            raise ShapeError(f"workflows stand more than {DEEPEST} deep inside each other")

    def _input(self, scope: _Scope, node: PlanNode) -> Json:
        given: Json = render(node.given, scope.names)
        if (role := given.get("model", render(node.model, scope.names))) and node.model:
            given["model"] = self._plan.model_id(str(role))
        return with_messages(node, given, self._instances.request) if node.messages else given

    def _call(self, scope: _Scope, node: PlanNode, path: str, given: Json) -> None:
        streams = scope.stream and node.stream
        place = Place(
            path,
            path,
            (lambda text: self.channel.say(path, text)) if streams else _silent,
            node.timeout,
        )
        call = asyncio.create_task(self._called(scope, node, place, given), name=path)
        self._calls.add(call)
        call.add_done_callback(self._call_ended)

    async def _called(self, scope: _Scope, node: PlanNode, place: Place, given: Json) -> None:
        finish = (lambda output: typed_answer(node, output)) if node.returns is not None else _same
        tool = self._instances.tools[node.use]
        output = await self._instances.call(tool, place, given, finish)
        self._settle(scope, node, "done", output)
        self._pump()

    def _call_ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if not call.cancelled() and (error := call.exception()) is not None:
            log_bug(error, call.get_name())
            self._fail(place_of(error, call.get_name()), reason_of(error))


def checked_inputs(body: Body, given: Mapping[str, Any]) -> Json:
    """The inputs of a workflow, typed and with defaults; raises `ShapeError` naming the input."""
    unknown = [name for name in given if name not in body.inputs]
    missing = [
        name for name, wanted in body.inputs.items() if wanted.required and name not in given
    ]
    if unknown or missing:
        known = ", ".join(body.inputs) or "none"
        wrong = [f"there is no input {name!r}" for name in unknown] + [
            f"the input {name!r} is missing" for name in missing
        ]
        raise ShapeError(f"{body.id}: {'; '.join(wrong)}. Its inputs: {known}")
    inputs: Json = {}
    for name, wanted in body.inputs.items():
        try:
            inputs[name] = (
                shape(wanted.type).check(given[name]) if name in given else wanted.default
            )
        except ShapeError as error:
            raise ShapeError(f"the input {name!r} of {body.id}: {error}") from error
    return inputs


def _outputs(body: Body, names: Mapping[str, Any]) -> Json:
    """What a workflow gives; null for what only a skipped node could have given."""
    outputs: Json = {}
    for name, out in body.outputs.items():
        reads = [read for _, source in expressions(out.value) for read in expression(source).reads]
        skipped = any(
            not read.soft and isinstance(names.get(str(read.path[0])), Missing) for read in reads
        )
        try:
            outputs[name] = shape(out.type).check(None if skipped else render(out.value, names))
        except (ExpressionError, ShapeError) as error:
            raise type(error)(f"the output {name!r} of {body.id}: {error}") from error
    return outputs


def _skipped(scope: _Scope, node: PlanNode) -> tuple[Settled, str] | None:
    """Whether a node is skipped, and why.

    An `if` is evaluated only when everything it reads is there.
    """
    if node.unless is not None and scope.state[node.unless] != "unmet":
        return "skipped", f"it is the else of {node.unless!r}"
    for name in (*node.hard, *node.needs):
        if scope.ended_as(name) in ("skipped", "unmet"):
            return "skipped", f"{name!r} was skipped"
    met = render(node.when, scope.names)
    if not isinstance(met, bool):
        raise ExpressionError(f"`if` must give true or false, not {met!r:.80}")
    return None if met else ("unmet", "its `if` is false")


def _begun(node: PlanNode, path: str) -> Begun:
    if node.kind in ("use", "agent"):
        return Begun(path, path, node.use, node.version, node.effect)
    return Begun(path, path)


def _silent(_text: str) -> None:
    """For nodes that do not stream."""


def _same(output: Json) -> Json:
    return output
