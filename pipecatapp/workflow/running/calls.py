"""Calls that nodes make: what goes in, and what becomes of what comes out."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from pipecatapp.workflow.channel import Channel
from pipecatapp.workflow.expressions import ExpressionError, render
from pipecatapp.workflow.ledger.values import canonical
from pipecatapp.workflow.plan import Plan, PlanNode
from pipecatapp.workflow.running.failing import is_final, log_bug, place_of, reason_of
from pipecatapp.workflow.running.frames import Failures, Frame
from pipecatapp.workflow.running.instance import Instances, Place
from pipecatapp.workflow.running.known import Found
from pipecatapp.workflow.running.prompting import typed_answer, with_messages
from pipecatapp.workflow.running.scope import unmet
from pipecatapp.workflow.running.waiting import more
from pipecatapp.workflow.tool import Effect, Json, ModelFacts, ToolFailed


class Calls:
    """Makes the calls of one run, each beside everything else."""

    def __init__(
        self,
        plan: Plan,
        instances: Instances,
        channel: Channel,
        tasks: "set[asyncio.Task[None]]",
        *,
        failures: Failures,
        go_on: Callable[[], None],
    ) -> None:
        self._plan, self._instances, self._channel = plan, instances, channel
        self._past, self._tasks = instances.past, tasks
        self._failures, self._go_on = failures, go_on

    def _input(self, node: PlanNode, path: str, names: Any) -> Json:
        """What a tool is called with; after a restart the same as before."""
        if (past := self._past.get(path)) is not None and past.input is not None:
            known: Json = self._instances.reader.value(past.input)
            return known
        given: Json = render(node.given, names)
        if (role := given.get("model", render(node.model, names))) and node.model:
            given["model"] = self._plan.model_id(str(role))
        if node.kind == "agent" and given.get("tools") and not self._takes_tools(given):
            given["tools"] = []
        if not node.messages:
            return given
        return with_messages(node, given, self._instances.request, self._instances.remarks)

    def _takes_tools(self, given: Json) -> bool:
        facts = cast("ModelFacts", self._instances.services.get(ModelFacts, ModelFacts()))
        return facts.takes_tools(str(given.get("model")))

    def call(
        self,
        node: PlanNode,
        frame: Frame,
        home: str,
        names: Any,
        *,
        stream: bool,
        grants: frozenset[Effect],
    ) -> None:
        """Call the tool of a node; its output ends the frame."""
        path, given = frame.path, self._input(node, frame.path, names)
        say = (lambda text: self._channel.say(path, text)) if stream else _silent
        tool, known = self._instances.tools[node.use], self._instances.known
        key = known.key(tool, node, path, given)
        place = Place(path, home, say, node.timeout, node.retries, node.wait, key, grants)
        found = known.find(key, path) if path not in self._past else None
        if node.cache == "pin":
            found = Found(canonical(node.pinned), "", "pinned")
        if found is not None and self._is_met(node, names, found):
            output = self._instances.take(tool, place, given, found)
            say(str(output.get("text") or "") if isinstance(output, dict) else "")
            frame.done(output)
            return

        def finish(output: Json) -> Json:
            gives = typed_answer(node, output) if node.returns is not None else output
            if (reason := self._unmet(node, names, gives)) is not None:
                raise ToolFailed(reason)
            return gives

        self._spawn(frame, self._instances.call(tool, place, given, finish))

    def _unmet(self, node: PlanNode, names: Any, output: Json) -> str | None:
        try:
            return unmet(node, names, output)
        except ExpressionError as error:
            return f"check: {error}"

    def _is_met(self, node: PlanNode, names: Any, found: Found) -> bool:
        """Whether an output that is known meets what is asked of it now; a pinned one has to."""
        if not node.check or node.cache == "pin":
            return True
        return self._unmet(node, names, self._instances.reader.value(found.column)) is None

    def _spawn(self, frame: Frame, call: Coroutine[Any, Any, Json]) -> None:
        """Wait for a call beside everything else; its output ends the frame."""

        async def called() -> None:
            output = await call
            if not frame.over:
                frame.done(output)
                self._go_on()

        frame.call = asyncio.create_task(called(), name=frame.path)
        self._tasks.add(frame.call)
        frame.call.add_done_callback(lambda task: self._call_ended(frame, task))

    def _call_ended(self, frame: Frame, call: "asyncio.Task[None]") -> None:
        self._tasks.discard(call)
        if not call.cancelled() and (error := call.exception()) is not None:
            log_bug(error, frame.path)
            path = place_of(error, frame.path)
            self._failures.fail(frame, path, reason_of(error), final=is_final(error))
            self._go_on()

    def ask_more(
        self, frame: Frame, home: str, at: str, reason: str, answered: Callable[[int], None]
    ) -> None:
        """Ask a person whether a loop may go on, as the instance `…/max`."""
        path = f"{at}/max"
        past = self._past.get(path)
        if past is not None and past.status == "done":
            allowed = int(self._instances.reader.value(past.output)["more"])
            answered(allowed)
            return
        inner = Frame(path, frame, done=lambda output: answered(output["more"]))
        place = Place(path, f"{home}/max", _silent)
        self._spawn(inner, self._instances.call(more, place, {"reason": reason}))


def _silent(_text: str) -> None:
    """For nodes that do not stream."""
