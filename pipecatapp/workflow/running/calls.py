"""Calls of nodes: preparation of inputs, and processing of outputs."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, cast

from pipecatapp.workflow.channel import Channel
from pipecatapp.workflow.expressions import ExpressionError
from pipecatapp.workflow.ledger.journal import Begun
from pipecatapp.workflow.ledger.values import canonical
from pipecatapp.workflow.models import input_of
from pipecatapp.workflow.plan import Plan, PlanNode
from pipecatapp.workflow.running.failing import is_final, log_bug, place_of, reason_of
from pipecatapp.workflow.running.frames import Failures, Frame
from pipecatapp.workflow.running.instance import Instances
from pipecatapp.workflow.running.known import Found, Key, Place
from pipecatapp.workflow.running.prompting import told, typed_answer
from pipecatapp.workflow.running.scope import unmet
from pipecatapp.workflow.running.waiting import more
from pipecatapp.workflow.tool import Effect, Facts, Json, ModelFacts, Tool, ToolFailed
from pipecatapp.workflow.trees import FACT, Tree


class Calls:
    """Makes the calls of one run, concurrently."""

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
        """Return the input of a tool; after a restart the same as before."""
        if (past := self._past.get(path)) is not None and past.input is not None:
            known: Json = self._instances.reader.value(past.input)
            return known
        facts = cast("ModelFacts", self._instances.services.get(ModelFacts, ModelFacts()))
        tool, request = self._instances.tools[node.use], self._instances.request
        given = input_of(node, tool, names, self._plan.roles, facts)
        return told(node, given, request, self._instances.remarks)

    def awaits_models(self, node: PlanNode) -> bool:
        """Return whether a node of a resumed run calls a model, and no model is ready yet."""
        calls = node.effect == "llm" and node.cache != "pin"
        return calls and not self._instances.may_ask()

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
        tries = (node.timeout, node.retries - node.renewals, node.wait)
        sees = self._instances.trees.sees(tool, given, self._instances.tools)
        key = None if sees else known.key(tool, node, path, given)
        place = Place(path, home, say, *tries, key, grants, node.where, names.get("project"))
        call = _Call(node, tool, place, given, names)
        if sees:
            self._spawn(frame, self._in_folder(call))
            return
        found = self._found(call)
        if found is not None:
            frame.done(self._take(call, found))
            return
        self._spawn(frame, self._instances.call(tool, place, given, call.finish))

    def _found(self, call: "_Call") -> Found | None:
        """Return a cached result that meets the current conditions, which a pinned output must
        meet."""
        if call.node.cache == "pin":
            return Found(canonical(call.node.pinned), "", "pinned")
        path = call.place.path
        found = self._instances.known.find(call.place.key, path) if path not in self._past else None
        if found is None or call.unmet(self._instances.reader.value(found.column)) is not None:
            return None
        return found

    def _take(self, call: "_Call", found: Found) -> Json:
        output = self._instances.take(call.tool, call.place, call.given, found)
        call.place.say(str(output.get("text") or "") if isinstance(output, dict) else "")
        return output

    async def _in_folder(self, call: "_Call") -> Json:
        """Make a call that uses the run's folder, in its turn; its cached result depends on the
        folder."""
        looked_up = False
        try:
            async with self._instances.trees.turn(call.place.path) as tree:
                found = await self._found_in(call, tree)
                looked_up = True
                if found is not None:
                    return self._take(call, found)
                return await self._instances.call(call.tool, call.place, call.given, call.finish)
        except ToolFailed:
            if not looked_up:
                self._instances.refused(call.tool, call.place, call.given)
            raise

    async def _found_in(self, call: "_Call", tree: Tree) -> Found | None:
        content, known = await tree.worktree.content(tree.state), self._instances.known
        call.key_is(known.key(call.tool, call.node, call.place.path, call.given, content))
        found = self._found(call)
        return found if found is not None and await tree.has(found.fact) else None

    def merge(self, frame: Frame, home: str, done: Callable[[], None]) -> None:
        """Bring what a fork has done into the folder around it, as the instance `…/merge`."""
        path, trees = f"{frame.path}/merge", self._instances.trees
        past = self._past.get(path)
        if (past is not None and past.status == "done") or not trees.is_used(frame.path):
            done()
            return
        inner = Frame(path, frame, done=lambda _output: done())
        self._instances.begin(Begun(path, f"{home}/merge", attempt=0), None)

        async def merged() -> Json:
            fact = await trees.merge(frame.path)
            output = {"state": fact["after"]}
            self._instances.done(path, output, Facts(more={FACT: fact}))
            return output

        self._spawn(inner, merged())

    def _spawn(self, frame: Frame, call: Coroutine[Any, Any, Json]) -> None:
        """Await a call in the background; its output ends the frame."""

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
        """Ask a person whether a loop may continue, as the instance `…/max`."""
        path = f"{at}/max"
        past = self._past.get(path)
        if past is not None and past.status == "done":
            allowed = int(self._instances.reader.value(past.output)["more"])
            answered(allowed)
            return
        inner = Frame(path, frame, done=lambda output: answered(output["more"]))
        place = Place(path, f"{home}/max", _silent)
        self._spawn(inner, self._instances.call(more, place, {"reason": reason}))


@dataclass
class _Call:
    """One call of a node's tool."""

    node: PlanNode
    tool: Tool
    place: Place
    given: Json
    names: Any

    def key_is(self, key: Key | None) -> None:
        self.place = replace(self.place, key=key)

    def finish(self, output: Json) -> Json:
        """Return the output of the node; raises `ToolFailed` if it does not meet `check`."""
        gives = typed_answer(self.node, output) if self.node.returns is not None else output
        if (reason := self.unmet(gives)) is not None:
            raise ToolFailed(reason)
        return gives

    def unmet(self, output: Json) -> str | None:
        """Return the reason why an output does not meet the conditions of the node."""
        try:
            return unmet(self.node, self.names, output)
        except ExpressionError as error:
            return f"check: {error}"


def _silent(_text: str) -> None:
    """For nodes that do not stream."""
