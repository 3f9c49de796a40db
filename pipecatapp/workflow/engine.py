"""The engine: starts runs, resumes them, and tells what happens in them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import structlog
from pydantic import ValidationError

from pipecatapp.workflow import views
from pipecatapp.workflow.channel import Channel, Delta, Listener
from pipecatapp.workflow.compiler import compile_workflow
from pipecatapp.workflow.document import Prompt, Workflow
from pipecatapp.workflow.document.diagnostic import did_you_mean
from pipecatapp.workflow.document.shapes import ShapeError
from pipecatapp.workflow.ledger import Event, Ledger
from pipecatapp.workflow.ledger.reading import RunRow, Spent
from pipecatapp.workflow.plan import Plan
from pipecatapp.workflow.running.agent import agent
from pipecatapp.workflow.running.execution import Execution
from pipecatapp.workflow.running.instance import Instances
from pipecatapp.workflow.running.prompting import request_of
from pipecatapp.workflow.running.scope import checked_inputs
from pipecatapp.workflow.tool import Tool
from pipecatapp.workflow.views import ConversationSummary, RunResult, RunSummary, RunView, Turn

_log = structlog.get_logger()


class UnknownWorkflow(LookupError):
    """No workflow has this id. The message names one that is near, or all there are."""


class UnknownRun(LookupError):
    """The ledger holds no run of this id, or it is not executed here. Look at the list of runs."""


class InvalidInputs(ValueError):
    """The inputs do not fit the workflow; nothing was started. The message names each fault."""


@dataclass
class _Live:
    """A run that this engine executes."""

    execution: Execution
    ended: "asyncio.Task[RunResult]"


class Engine:
    """`async with Engine(ledger, tools=…) as engine`: holds the ledger's lease while it is open.

    Runs that are unfinished when it closes stay so; `resume_unfinished()` of the next one
    goes on with them.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        tools: Iterable[Tool],
        workflows: Iterable[Workflow] = (),
        prompts: Iterable[Prompt] = (),
        services: Mapping[Any, object] | None = None,
        roles: Mapping[str, str] | None = None,
    ) -> None:
        self.ledger = ledger
        self.tools: Mapping[str, Tool] = {tool.name: tool for tool in (agent, *tools)}
        self.workflows: Mapping[str, Workflow] = {workflow.id: workflow for workflow in workflows}
        self._prompts, self._services, self._roles = (
            tuple(prompts),
            dict(services or {}),
            dict(roles or {}),
        )
        self._plans: dict[int, Plan] = {}
        self._live: dict[str, _Live] = {}

    async def __aenter__(self) -> Self:
        await self.ledger.hold(self._hear)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for live in self._live.values():
            live.execution.suspend()
        await asyncio.gather(*(live.ended for live in self._live.values()), return_exceptions=True)
        await self.ledger.let_go()

    def plan(self, workflow: str | Workflow) -> Plan:
        """Compile a workflow; raises `UnknownWorkflow` and `InvalidDocument`."""
        if isinstance(workflow, str):
            if workflow not in self.workflows:
                raise UnknownWorkflow(
                    f"There is no workflow {workflow!r}. {did_you_mean(workflow, self.workflows)}"
                )
            workflow = self.workflows[workflow]
        if (plan := self._plans.get(id(workflow))) is None:
            plan = compile_workflow(
                workflow, self.tools, self._prompts, workflows=self.workflows, roles=self._roles
            )
            if self.workflows.get(workflow.id) is workflow:
                self._plans[id(workflow)] = plan
        return plan

    async def start(
        self,
        workflow: str | Plan,
        inputs: Mapping[str, Any],
        *,
        conversation: str | None = None,
        caller: str = "",
        listener: Listener | None = None,
    ) -> str:
        """Start a run; its id is on the disk when this returns.

        `listener` hears it from its first event.
        """
        plan = workflow if isinstance(workflow, Plan) else self.plan(workflow)
        plan.check_tools(self.tools)
        try:
            checked = checked_inputs(plan.body, inputs)
        except ShapeError as error:
            raise InvalidInputs(str(error)) from error
        run, request = self.ledger.names.new(), request_of(checked)
        instances = self._instances(run, request, plan, Spent(0, 0, 0.0))
        begun = instances.journal.begin(
            workflow=plan.workflow,
            plan=plan.model_dump(mode="json"),
            inputs=checked,
            request=request,
            conversation=conversation,
            caller=caller,
        )
        live = self._launch(begun, Execution(plan, checked, instances, Channel(run)), listener)
        try:
            await asyncio.shield(begun)
        except asyncio.CancelledError:
            live.execution.cancel()
            raise
        return run

    async def wait(self, run: str) -> RunResult:
        """How a run ended, once it has."""
        if live := self._live.get(run):
            return await asyncio.shield(live.ended)
        row = self._row(run)
        if row.ended is None:
            raise UnknownRun(f"The run {run} is unfinished and not executed here.")
        return views.result(self.ledger.read, row)

    async def follow(self, run: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Its events after `after`, those to come included, each once; ends with the run."""
        async for item in self.listen(run, after=after):
            if isinstance(item, Event):
                yield item

    async def listen(self, run: str, *, after: int | None = None) -> AsyncIterator[Delta | Event]:
        """Text and events as they come, until the run ends; with `after` first the events before.

        One who comes late first hears, at offset 0, what streaming nodes have said so far.
        """
        listener, live = Listener(), self._live.get(run)
        if live is not None:
            live.execution.channel.join(listener)
        try:
            last = after or 0
            if after is not None:
                self._row(run)
                for event in self.ledger.read.all_events(run, after=last):
                    yield event
                    last = event.seq
            if live is not None:
                async for item in listener:
                    if isinstance(item, Delta) or item.seq > last:
                        yield item
        finally:
            if live is not None:
                live.execution.channel.leave(listener)

    async def cancel(self, run: str) -> None:
        """End a run; returns when nothing of it runs any more.

        One that has ended stays as it is.
        """
        if live := self._live.get(run):
            live.execution.cancel()
            await asyncio.shield(live.ended)
        elif self._row(run).ended is None:
            raise UnknownRun(f"The run {run} is not executed here.")

    async def resume_unfinished(self) -> list[str]:
        """Go on with every run that an earlier process left; gives their ids."""
        resumed = []
        for run in self.ledger.read.unfinished():
            if run not in self._live:
                resumed.append(run)
                await self._resume(self._row(run))
        return resumed

    def runs(
        self,
        *,
        limit: int = 50,
        before: str | None = None,
        workflow: str | None = None,
        conversation: str | None = None,
    ) -> list[RunSummary]:
        """Runs, newest first; `before` is the last id of the page before."""
        rows = self.ledger.read.runs(
            limit=limit, before=before, workflow=workflow, conversation=conversation
        )
        return [views.summary(row) for row in rows]

    def run(self, run: str) -> RunView:
        """Everything about one run."""
        return views.view(self.ledger.read, self._row(run))

    def conversation(self, id: str, limit: int = 20) -> list[Turn]:
        """The last turns of a conversation, oldest first: its finished runs."""
        return views.turns(self.ledger.read, id, limit)

    def conversations(self, limit: int = 50) -> list[ConversationSummary]:
        """Conversations, the one last spoken in first."""
        return views.conversations(self.ledger.read, limit)

    def _row(self, run: str) -> RunRow:
        row = self.ledger.read.run(run)
        if row is None:
            raise UnknownRun(f"There is no run {run!r}.")
        return row

    def _instances(self, run: str, request: str, plan: Plan, spent: Spent) -> Instances:
        return Instances(
            run=run,
            request=request,
            tools=self.tools,
            services=self._services,
            journal=self.ledger.journal(run),
            reader=self.ledger.read,
            limits=plan.limits,
            past={step.path: step for step in self.ledger.read.steps(run)},
            spent=spent,
        )

    def _launch(
        self, begun: Awaitable[object], execution: Execution, listener: Listener | None
    ) -> _Live:
        """Execute a run as soon as its beginning is on the disk."""
        if listener is not None:
            execution.channel.join(listener)
        ended = asyncio.create_task(execution.carry_out(begun), name=f"run {execution.run}")
        live = self._live[execution.run] = _Live(execution, ended)
        ended.add_done_callback(lambda task: self._forget(execution.run, task))
        return live

    async def _resume(self, row: RunRow) -> None:
        try:
            plan = Plan.model_validate(self.ledger.read.value(row.plan))
            plan.check_tools(self.tools)
        except (ValidationError, LookupError) as error:
            journal = self.ledger.journal(row.id)
            journal.end("failed", error=f"cannot be resumed: {error}")
            await journal.durable()
            return
        instances = self._instances(
            row.id, self.ledger.read.value(row.request), plan, self.ledger.read.spent(row.id)
        )
        inputs = self.ledger.read.value(row.inputs)
        begun = instances.journal.resume()
        self._launch(begun, Execution(plan, inputs, instances, Channel(row.id)), None)
        await asyncio.shield(begun)

    def _hear(self, event: Event) -> None:
        if live := self._live.get(event.run):
            live.execution.channel.publish(event)

    def _forget(self, run: str, ended: "asyncio.Task[RunResult]") -> None:
        self._live.pop(run).execution.channel.close()
        if not ended.cancelled() and (error := ended.exception()) is not None:
            _log.error("run_end_not_written", run=run, error=repr(error))
