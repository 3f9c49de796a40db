"""One run being executed.

Deciding what comes next is plain synchronous code: when a node ends, whatever it made ready begins
in the same moment, so the end of one and the start of the next share a commit. Only calls of tools
wait.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog

from pipecatapp.workflow.channel import Channel
from pipecatapp.workflow.document.shapes import ShapeError
from pipecatapp.workflow.expressions import (
    ExpressionError,
    Missing,
    render,
)
from pipecatapp.workflow.ledger.errors import LedgerFailed
from pipecatapp.workflow.ledger.journal import Begun, Ending
from pipecatapp.workflow.ledger.values import canonical
from pipecatapp.workflow.plan import Body, Plan, PlanNode
from pipecatapp.workflow.running.instance import (
    Instances,
    Place,
    RunStopped,
    log_bug,
    place_of,
    reason_of,
)
from pipecatapp.workflow.running.prompting import typed_answer, with_messages
from pipecatapp.workflow.running.scope import (
    Scope,
    Settled,
    checked_inputs,
    outputs_of,
    skipped,
)
from pipecatapp.workflow.tool import Json
from pipecatapp.workflow.views import RunResult

_log = structlog.get_logger()

DEEPEST = 8
"""How many workflows may stand inside each other."""
GRACE = 10.0
"""Seconds a tool has to end after it was cancelled."""


@dataclass(frozen=True)
class _Ending:
    status: Literal["done", "failed", "cancelled", "suspended"]
    outputs: Json = field(default_factory=dict)
    path: str | None = None
    reason: str = ""


class Execution:
    """Takes a plan from its first node, or from where its ledger stops, to its end."""

    def __init__(self, plan: Plan, inputs: Json, instances: Instances, channel: Channel) -> None:
        self._plan, self._inputs, self._instances = plan, inputs, instances
        self.run, self.channel = instances.run, channel
        self._journal, self._past = instances.journal, instances.past
        self._ready: deque[tuple[Scope, PlanNode]] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._ending: asyncio.Future[_Ending] = asyncio.get_running_loop().create_future()
        self._journal.broken.add_done_callback(
            lambda broken: self._fail(None, str(broken.result()))
        )

    async def carry_out(self, begun: Awaitable[object]) -> RunResult:
        """The whole run, once its beginning is on the disk; raises `LedgerFailed` if it is not."""
        await begun
        work = asyncio.create_task(self._work())
        await asyncio.wait({work})
        if (error := work.exception()) is None:
            return work.result()
        log_bug(error, "")
        await self._stop_calls()
        return await self._unwritten(f"the engine broke: {type(error).__name__}: {error}")

    async def _work(self) -> RunResult:
        wall = self._instances.limits.wall
        if wall is not None:
            left = wall - self._instances.spent.seconds
            self._later("", left, f"limits.wall is {wall:g} s, and they are over")
        body = self._plan.body
        self._open_body(body, "", self._inputs, (), self._end_run, stream=True)
        self._pump()
        ending = await self._ending
        await self._stop_calls()
        if ending.status == "suspended":
            return RunResult(run=self.run, status="cancelled", error="left to be resumed")
        try:
            return await self._written(ending, ending.status)
        except LedgerFailed as error:
            return await self._unwritten(str(error))

    async def _stop_calls(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls, timeout=GRACE)

    async def _written(self, ending: _Ending, status: Ending) -> RunResult:
        """The result, once it is on the disk with everything that led to it."""
        reason = ending.reason if ending.path is None else f"{ending.path}: {ending.reason}"
        self._instances.close(ending.path, ending.reason)
        outputs = ending.outputs if status == "done" else None
        self._journal.end(status, outputs=outputs, error=reason or None)
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

    def _end_run(self, scope: Scope) -> None:
        try:
            self._end(_Ending("done", outputs_of(self._plan.body, scope.names)))
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
        ended: Callable[[Scope], None],
        *,
        stream: bool,
    ) -> None:
        run = {"id": self.run, "request": self._instances.request}
        given = {"inputs": inputs, "run": run}
        mark = f"{body.id} {canonical(inputs)}"
        self._open(
            Scope(
                path,
                body.nodes,
                None,
                given=given,
                stream=stream,
                stack=(*stack, mark),
                ended=ended,
            )
        )

    def _open(self, scope: Scope) -> None:
        self._ready.extend((scope, node) for node in scope.nodes if not node.waits)
        if not scope.nodes:
            scope.ended(scope)

    def _pump(self) -> None:
        """Begin everything that is ready, until only calls are left to wait for."""
        while self._ready and not self._ending.done():
            self._begin(*self._ready.popleft())

    def _settle(self, scope: Scope, node: PlanNode, state: Settled, value: Any) -> None:
        if timer := self._timers.pop(scope.at(node), None):
            timer.cancel()
        self._ready.extend((scope, other) for other in scope.settle(node, state, value))
        if len(scope.state) == len(scope.nodes):
            scope.ended(scope)

    def _begin(self, scope: Scope, node: PlanNode) -> None:
        path, past = scope.at(node), self._past.get(scope.at(node))
        if past is not None and past.status == "done":
            self._settle(scope, node, "done", self._instances.reader.value(past.output))
        elif past is not None and past.status == "failed":
            self._fail(path, past.error or "failed before the restart")
        else:
            try:
                if reason := skipped(scope, node):
                    self._skip(scope, node, *reason)
                else:
                    self._start(scope, node, path)
            except (ExpressionError, ShapeError, RunStopped) as error:
                self._refuse(node, path, str(error))

    def _skip(self, scope: Scope, node: PlanNode, state: Settled, reason: str) -> None:
        path = scope.at(node)
        if path not in self._past:
            self._journal.skipped(path, path, reason)
        self._settle(scope, node, state, Missing(f"{node.id!r} was skipped: {reason}"))

    def _refuse(self, node: PlanNode, path: str, reason: str) -> None:
        """A node that cannot even begin."""
        if path not in self._instances.open:
            self._instances.begin(_begun(node, path), None)
        self._fail(path, reason)

    def _start(self, scope: Scope, node: PlanNode, path: str) -> None:
        given = self._input(scope, node)
        if node.kind in ("use", "agent"):
            self._call(scope, node, path, given)
            return
        if path in self._past:
            self._instances.open[path] = path
        else:
            self._instances.count(path, nodes=1)
            self._instances.begin(_begun(node, path), given if node.kind == "workflow" else None)
        self._later(path, node.timeout, f"took longer than {node.timeout or 0:g} s")
        stream = scope.stream and node.stream
        if node.kind != "workflow":
            self._open(
                Scope(
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

    def _end_scope(self, outer: Scope, node: PlanNode) -> Callable[[Scope], None]:
        def ended(scope: Scope) -> None:
            results = scope.results()
            self._instances.done(scope.path, results)
            self._settle(outer, node, "done", results)

        return ended

    def _end_workflow(self, outer: Scope, node: PlanNode, body: Body) -> Callable[[Scope], None]:
        def ended(scope: Scope) -> None:
            try:
                results = outputs_of(body, scope.names)
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

    def _input(self, scope: Scope, node: PlanNode) -> Json:
        given: Json = render(node.given, scope.names)
        if (role := given.get("model", render(node.model, scope.names))) and node.model:
            given["model"] = self._plan.model_id(str(role))
        return with_messages(node, given, self._instances.request) if node.messages else given

    def _call(self, scope: Scope, node: PlanNode, path: str, given: Json) -> None:
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

    async def _called(self, scope: Scope, node: PlanNode, place: Place, given: Json) -> None:
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


def _begun(node: PlanNode, path: str) -> Begun:
    if node.kind in ("use", "agent"):
        return Begun(path, path, node.use, node.version, node.effect)
    return Begun(path, path)


def _silent(_text: str) -> None:
    """For nodes that do not stream."""


def _same(output: Json) -> Json:
    return output
