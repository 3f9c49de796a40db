"""Start, fork and resume runs."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import structlog
from pydantic import ValidationError

from pipecatapp.workflow.channel import Channel, Listener
from pipecatapp.workflow.compiling.compiler import compile_workflow
from pipecatapp.workflow.document import Project, Prompt, Workflow
from pipecatapp.workflow.document.loading import checked_document
from pipecatapp.workflow.document.shapes import ShapeError
from pipecatapp.workflow.document.yaml_text import read_yaml
from pipecatapp.workflow.expressions import render
from pipecatapp.workflow.ledger import Event, Ledger, inbox
from pipecatapp.workflow.ledger.inbox import Remark
from pipecatapp.workflow.ledger.journal import Fork
from pipecatapp.workflow.ledger.reading import RunRow, Spent
from pipecatapp.workflow.ledger.values import Statement
from pipecatapp.workflow.plan import Plan
from pipecatapp.workflow.running.agent import agent
from pipecatapp.workflow.running.execution import Execution
from pipecatapp.workflow.running.expansion import plan_run
from pipecatapp.workflow.running.instance import Instances
from pipecatapp.workflow.running.known import Known
from pipecatapp.workflow.running.prompting import request_of
from pipecatapp.workflow.running.scope import checked_inputs
from pipecatapp.workflow.running.waiting import Waiting
from pipecatapp.workflow.tool import Json, ModelFacts, Tool
from pipecatapp.workflow.trees import Source, Trees
from pipecatapp.workflow.views import RunResult
from pipecatapp.workflow.workspace import Workspaces

_log = structlog.get_logger()


class UnknownRun(LookupError):
    """The ledger has no run of this id, or it is not executed here: see the list of runs."""


class UnknownStep(LookupError):
    """The run has no step at this path: see its steps."""


class InvalidInputs(ValueError):
    """The inputs do not fit the workflow; nothing was started. The message names each fault."""


@dataclass(frozen=True)
class Given:
    """The arguments of the start of a run."""

    inputs: Mapping[str, Any]
    conversation: str | None
    caller: str
    answers: Mapping[str, Any]
    interactive: bool
    beside: Callable[[str], Sequence[Statement]] = lambda _run: ()
    """Returns further statements for the transaction that starts the run, from its id."""
    instead_of: str | None = None
    """The turn of the conversation of which this run is another version."""


@dataclass
class Live:
    """A run that this engine executes."""

    execution: Execution
    ended: "asyncio.Task[RunResult]"

    @property
    def waiting(self) -> Waiting:
        return self.execution.instances.waiting

    @property
    def remarks(self) -> list[Remark]:
        return self.execution.instances.remarks


class Executor:
    """Executes runs for `Engine`; it holds the ledger's lease while it is open."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        tools: Iterable[Tool],
        workflows: Iterable[Workflow] = (),
        prompts: Iterable[Prompt] = (),
        projects: Iterable[Project] = (),
        services: Mapping[Any, object] | None = None,
        roles: Mapping[str, Any] | None = None,
    ) -> None:
        self.ledger = ledger
        self.tools: dict[str, Tool] = {tool.name: tool for tool in (agent, plan_run, *tools)}
        self.workflows: Mapping[str, Workflow] = {workflow.id: workflow for workflow in workflows}
        self.prompts: Mapping[str, Prompt] = {prompt.id: prompt for prompt in prompts}
        self.projects: Mapping[str, Project] = {project.id: project for project in projects}
        self._services, self._roles = dict(services or {}), dict(roles or {})
        self._plans: dict[int, Plan] = {}
        self._live: dict[str, Live] = {}
        self._waking = asyncio.Lock()
        """A run that rests is resumed or ended, never both."""

    def learn(self, tools: Iterable[Tool], without: Iterable[str] = ()) -> None:
        """Add tools, one with an existing name is replaced, and remove those named `without`."""
        for name in without:
            self.tools.pop(name, None)
        self.tools.update({tool.name: tool for tool in tools})

    def provide(self, services: Mapping[Any, object]) -> None:
        """Add services for tools that need the engine themselves."""
        self._services.update(services)

    @property
    def facts(self) -> ModelFacts:
        """The model properties that the application provides."""
        return cast("ModelFacts", self._services.get(ModelFacts, ModelFacts()))

    def know(self, workflow: Workflow) -> None:
        """Register a workflow; active runs continue with the version with which they started."""
        self.workflows = {**self.workflows, workflow.id: workflow}
        self._plans = {
            key: plan for key, plan in dict(self._plans).items() if workflow.id not in plan.bodies
        }

    def tell(self, prompts: Iterable[Prompt], projects: Iterable[Project]) -> None:
        """Have these prompts and projects from now on, and no others."""
        self.prompts = {prompt.id: prompt for prompt in prompts}
        self.projects = {project.id: project for project in projects}
        self._plans = {}

    def forget(self, workflow: str) -> None:
        """Have no workflow of this id from now on."""
        self.workflows = {id: one for id, one in self.workflows.items() if id != workflow}
        self._plans = {}

    async def __aenter__(self) -> Self:
        await self.ledger.hold(self._hear)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for live in self._live.values():
            live.execution.suspend()
        await asyncio.gather(*(live.ended for live in self._live.values()), return_exceptions=True)
        await self.ledger.let_go()

    @property
    def workspaces(self) -> Workspaces | None:
        """Where the folders of runs are, if anywhere."""
        return cast("Workspaces | None", self._services.get(Workspaces))

    async def _begin(
        self, plan: Plan, given: Given, listener: Listener | None, fork: Fork | None = None
    ) -> str:
        self.ledger.check_room()
        plan.check_tools(self.tools)
        checked_in = self.check_inputs(plan, given.inputs)
        run, request = self.ledger.names.new(), request_of(checked_in)
        preset = [
            inbox.preset(self.ledger.names.new(), run, name, value)
            for name, value in given.answers.items()
        ]
        waiting = Waiting(
            self.ledger.journal(run),
            {},
            given=given.answers,
            came={},
            interactive=given.interactive,
        )
        instances = self._instances(run, request, checked_in, plan, Spent(), waiting, fork)
        begun = instances.journal.begin(
            workflow=plan.workflow,
            plan=plan.model_dump(mode="json"),
            inputs=checked_in,
            request=request,
            conversation=given.conversation,
            caller=given.caller,
            beside=[*preset, *given.beside(run)],
            interactive=given.interactive,
            fork=fork,
            instead_of=given.instead_of,
        )
        live = self._launch(begun, Execution(plan, checked_in, instances, Channel(run)), listener)
        try:
            await asyncio.shield(begun)
        except asyncio.CancelledError:
            live.execution.cancel()
            raise
        return run

    def check_inputs(self, plan: Plan, inputs: Mapping[str, Any]) -> Json:
        """The inputs as a run would have them; raises `InvalidInputs`."""
        try:
            return checked_inputs(plan.body, inputs)
        except ShapeError as error:
            raise InvalidInputs(str(error)) from error

    async def resume_unfinished(self) -> list[str]:
        """Resume every run that an earlier process left unfinished; returns their ids."""
        resumed = []
        for run in self.ledger.read.unfinished():
            async with self._waking:
                row = self.row(run)
                if run not in self._live and row.ended is None:
                    resumed.append(run)
                    await self._resume(row)
        return resumed

    def row(self, run: str) -> RunRow:
        """Return the row of a run in the ledger; raises `UnknownRun`."""
        row = self.ledger.read.run(run)
        if row is None:
            raise UnknownRun(f"There is no run {run!r}.")
        return row

    def _instances(
        self,
        run: str,
        request: str,
        inputs: Json,
        plan: Plan,
        spent: Spent,
        waiting: Waiting,
        fork: Fork | None,
        *,
        resumed: bool = False,
    ) -> Instances:
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
            waiting=waiting,
            known=Known(
                self.ledger.read,
                run,
                fork.family if fork else run,
                origin=fork.origin if fork else None,
                rerun=fork.at if fork else None,
            ),
            trees=Trees(
                self.workspaces,
                self.ledger.read,
                run,
                _source(plan, inputs, fork.origin if fork else None),
            ),
            compiled=self._compiled,
            remarks=inbox.remarks(self.ledger.read, run),
            struck=inbox.struck(self.ledger.read, run),
            may_ask=self.facts.ready if resumed else lambda: True,
        )

    def _compiled(self, text: str) -> Plan:
        """The plan of a workflow that a run has written; raises `InvalidDocument`."""
        return compile_workflow(
            checked_document(*read_yaml(text, file="plan.yaml")),
            dict(self.tools),
            self.prompts.values(),
            workflows=self.workflows,
            roles=self._roles,
            projects=self.projects,
        )

    def _launch(
        self, begun: Awaitable[object], execution: Execution, listener: Listener | None
    ) -> Live:
        """Execute a run as soon as its beginning is on the disk."""
        if listener is not None:
            execution.channel.join(listener)
        ended = asyncio.create_task(execution.carry_out(begun), name=f"run {execution.run}")
        live = self._live[execution.run] = Live(execution, ended)
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
        read = self.ledger.read
        waiting = Waiting(
            self.ledger.journal(row.id),
            {step.path: step for step in read.steps(row.id)},
            given=inbox.presets(read, row.id),
            came=inbox.answers(read, row.id),
            interactive=bool(row.interactive),
        )
        request = read.value(row.request)
        fork = Fork(row.forked, row.family, row.rerun) if row.forked else None
        inputs, spent = read.value(row.inputs), read.spent(row.id)
        instances = self._instances(
            row.id, request, inputs, plan, spent, waiting, fork, resumed=True
        )
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


def _source(plan: Plan, inputs: Json, origin: str | None) -> Source:
    """Return the initial content of the run's folder; raises `ExpressionError`."""
    if plan.workspace is None:
        return Source(origin=origin)
    told = render(plan.workspace.model_dump(), {"inputs": inputs, "run": {"request": ""}})
    repo, commit = told["repo"], told["commit"]
    return Source(str(repo), None if commit is None else str(commit), origin)
