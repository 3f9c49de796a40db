"""The engine: starts runs, resumes them, and publishes their events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Unpack

from pipecatapp.workflow import views
from pipecatapp.workflow.channel import Delta, Listener
from pipecatapp.workflow.compiling.compiler import compile_workflow
from pipecatapp.workflow.document import Project, Prompt, Workflow
from pipecatapp.workflow.document.diagnostic import did_you_mean
from pipecatapp.workflow.executor import Executor, Given, UnknownRun, UnknownStep
from pipecatapp.workflow.ledger import Event, inbox
from pipecatapp.workflow.ledger.clock import now
from pipecatapp.workflow.ledger.journal import Ended, Fork
from pipecatapp.workflow.ledger.reading import RunFilter, RunRow
from pipecatapp.workflow.ledger.values import Statement
from pipecatapp.workflow.plan import Plan, granting
from pipecatapp.workflow.running.failing import CUT_SHORT
from pipecatapp.workflow.running.waiting import NotAsked, WrongAnswer, checked
from pipecatapp.workflow.todo import TODO_TOOL, NoTodo, NotStruck, TodoItem, todo_list
from pipecatapp.workflow.tool import Effect, Question, Reply
from pipecatapp.workflow.views import RunResult, RunSummary, RunView


class UnknownWorkflow(LookupError):
    """No workflow has this id. The message names one that is near, or all there are."""


class Engine(Executor):
    """`async with Engine(ledger, tools=…) as engine`: holds the ledger's lease while it is open.

    Runs that are unfinished when it closes stay so; `resume_unfinished()` of the next engine
    continues them.
    """

    def plan(
        self,
        workflow: str | Workflow,
        others: Mapping[str, Workflow] | None = None,
        prompts: Mapping[str, Prompt] | None = None,
        projects: Mapping[str, Project] | None = None,
    ) -> Plan:
        """Compile a workflow; raises `UnknownWorkflow` and `InvalidDocument`. It may use `others`,
        too. `prompts` and `projects` replace those of the same id, and are used by this plan only.

        Another thread may call it too: what others change meanwhile is replaced, never edited.
        """
        plans: dict[int, Plan] = {} if prompts or projects else self._plans
        if isinstance(workflow, str):
            if workflow not in self.workflows:
                raise UnknownWorkflow(
                    f"There is no workflow {workflow!r}. {did_you_mean(workflow, self.workflows)}"
                )
            workflow = self.workflows[workflow]
        if (plan := plans.get(id(workflow))) is None:
            plan = compile_workflow(
                workflow,
                dict(self.tools),
                {**self.prompts, **(prompts or {})}.values(),
                workflows={**self.workflows, **(others or {})},
                roles=self._roles,
                projects={**self.projects, **(projects or {})},
            )
            if self.workflows.get(workflow.id) is workflow and not (others or prompts or projects):
                plans[id(workflow)] = plan
        return plan

    def is_compiled(self, workflow: str) -> bool:
        """Whether `plan` has only to look this workflow up."""
        return id(self.workflows.get(workflow)) in self._plans

    async def start(
        self,
        workflow: str | Plan,
        inputs: Mapping[str, Any],
        *,
        conversation: str | None = None,
        caller: str = "",
        listener: Listener | None = None,
        answers: Mapping[str, Any] | None = None,
        interactive: bool = True,
        grants: Collection[Effect] | None = None,
        beside: Callable[[str], Sequence[Statement]] = lambda _run: (),
        instead_of: str | None = None,
    ) -> str:
        """Start a run; its id is on the disk when this returns.

        In a `conversation` it is the next turn, or another version of the turn `instead_of`.
        `listener` receives its events from the first one. `answers` are for its questions, by path
        or id of the node; without `interactive` a question without an answer fails instead of
        waiting. `grants` are its permitted effects; raises `NotGranted` if it needs others. The
        statements of `beside` for the run's id are written in the same transaction. Raises
        `DiskFull` if the ledger has no space for another run.
        """
        plan = workflow if isinstance(workflow, Plan) else self.plan(workflow)
        if grants is not None:
            plan = granting(plan, grants)
        given = Given(
            inputs, conversation, caller, dict(answers or {}), interactive, beside, instead_of
        )
        return await self._begin(plan, given, listener)

    async def fork(
        self,
        run: str,
        *,
        plan: Plan | None = None,
        inputs: Mapping[str, Any] | None = None,
        at: str | None = None,
        caller: str = "",
        listener: Listener | None = None,
        answers: Mapping[str, Any] | None = None,
    ) -> str:
        """Run again what `run` ran, or an edited plan, and take over all that stays the same.

        An instance of `run` that is done is taken over, whatever its effect, when its tool and its
        input are the same; from the instance `at` (`fix[2]/patch`) on, with all inside it, nothing
        is. Raises `UnknownRun`, `UnknownStep` and `InvalidInputs`.
        """
        row, read = self.row(run), self.ledger.read
        if at is not None and read.step(run, at) is None:
            raise UnknownStep(f"The run {run} has no step {at!r}.")
        before = Plan.model_validate(read.value(row.plan))
        plan = before if plan is None else plan
        if before.grants is not None and plan is not before:
            plan = granting(plan, before.grants)
        told = {**inbox.presets(read, run), **(answers or {})}
        old: Mapping[str, Any] = read.value(row.inputs)
        given = Given(
            {name: value for name, value in old.items() if name in plan.body.inputs}
            if inputs is None
            else inputs,
            row.conversation,
            caller or row.caller,
            told,
            bool(row.interactive),
        )
        return await self._begin(plan, given, listener, Fork(run, row.family, at))

    async def wait(self, run: str) -> RunResult:
        """How a run ended, once it has."""
        if live := self._live.get(run):
            return await asyncio.shield(live.ended)
        row = self.row(run)
        if row.ended is None:
            raise UnknownRun(f"The run {run} is unfinished and not executed here.")
        return views.result(self.ledger.read, row)

    async def follow(self, run: str, *, after: int = 0) -> AsyncGenerator[Event]:
        """Yield its events after `after`, including future ones, each once; ends with the run."""
        async for item in self.listen(run, after=after):
            if isinstance(item, Event):
                yield item

    async def listen(self, run: str, *, after: int | None = None) -> AsyncIterator[Delta | Event]:
        """Yield text and events as they arrive, until the run ends; with `after` first earlier
        events.

        A late listener first receives, at offset 0, the text that streaming nodes have sent so far.
        """
        listener, live = Listener(), self._live.get(run)
        if live is not None:
            live.execution.channel.join(listener)
        try:
            last = after or 0
            if after is not None:
                self.row(run)
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

        A suspended run ends where it was; a run that has ended is unchanged. Raises `UnknownRun`,
        also if a remote program may still be running: only the process that resumes the run can end
        it.
        """
        async with self._waking:
            if run not in self._live and (row := self.row(run)).ended is None:
                await self._end_resting(row)
        if live := self._live.get(run):
            live.execution.cancel()
            await asyncio.shield(live.ended)

    async def _end_resting(self, row: RunRow) -> None:
        journal, read = self.ledger.journal(row.id), self.ledger.read
        left = read.open_steps(row.id)
        away = [step.path for step in left if step.effect == "exec"]
        if away and Plan.model_validate(read.value(row.plan)).leaves_home():
            raise UnknownRun(
                f"{away[0]} may still run in another place; cancel it with the service."
            )
        for step in sorted(left, key=lambda step: len(step.path), reverse=True):
            journal.ended(step.path, step.node, "cancelled", Ended(error=CUT_SHORT))
        journal.end("cancelled")
        await journal.durable()

    async def answer(self, run: str, path: str, value: Any, *, by: str = "") -> None:
        """Answer the question of the step at `path`; the answer is on the disk when this returns.

        A run that is not executed now uses the answer when it is resumed.

        Raises `UnknownRun`, `NotAsked`, and `WrongAnswer` if the value is not valid, or was spoken
        (`by` is "voice") although a spoken answer is not sufficient.
        """
        async with self._waking:  # else a run that is resumed meanwhile would miss the answer
            live = self._live.get(run)
            question = live.waiting.questions().get(path) if live else None
            question = question or self._asked(run, path)
            if by == "voice" and not question.by_voice:
                raise WrongAnswer("This is not answered by voice alone: answer it in the chat.")
            fitting = checked(question, value)
            statement = inbox.answered(self.ledger.names.new(), run, path, fitting, by)
            await self.ledger.submit(run, [statement])
            if live is not None:
                live.waiting.answer(path, Reply(value=fitting, by=by, at=now()))

    def _asked(self, run: str, path: str) -> Question:
        """Return a question that an unfinished run asked by its ledger, although no call waits now:
        the run is not executed, or is being resumed.
        """
        read = self.ledger.read
        if self.row(run).ended is not None:
            raise UnknownRun(f"The run {run} has ended.")
        answered = inbox.answers(read, run)
        steps = (step for step in read.open_steps(run) if step.status == "waiting")
        asked = {step.path: step.facts for step in steps if step.path not in answered}
        if path not in asked:
            told = ", ".join(asked) or "nothing"
            raise NotAsked(f"No question is open at {path!r}. Open: {told}.")
        return Question.model_validate(read.value(asked[path])["question"])

    async def note(self, run: str, text: str, *, by: str = "") -> None:
        """Send a note to a run, also to a suspended one: every later model call receives it.

        Raises `UnknownRun` for a run that has ended.
        """
        async with self._waking:
            live = self._live.get(run)
            if live is None and self.row(run).ended is not None:
                raise UnknownRun(f"The run {run} has ended.")
            remark = inbox.Remark(self.ledger.names.new(), text, by, now())
            statement = inbox.remarked(remark.id, run, text, by)
            written = self.ledger.journal(run).note(statement, text, by)
            if live is not None:
                live.remarks.append(remark)
            await asyncio.shield(written)

    def todo(self, run: str) -> list[TodoItem]:
        """The to-do list of a run: the steps of its plans and added items. Raises `UnknownRun`."""
        return todo_list(self.ledger.read, self.row(run), self.ledger.read.steps(run))

    async def strike(self, run: str, id: str, *, by: str = "") -> None:
        """Remove an item that has not started from the to-do list, by its name in `todo`.

        Raises `UnknownRun` for a run that has ended, `UnknownStep` and `NotStruck`.
        """
        async with self._waking:
            items = {item.id: item for item in self.todo(run) if item.path}
            if self.row(run).ended is not None:
                raise UnknownRun(f"The run {run} has ended.")
            if id not in items:
                raise UnknownStep(
                    f"The to-do list has no item {id!r}. {did_you_mean(id, list(items))}"
                )
            path, live = items[id].path, self._live.get(run)
            begun = live.execution.instances.has_begun(path) if live else False
            if begun or items[id].state not in ("open", "struck"):
                raise NotStruck(f"{id!r} cannot be struck: it has begun.")
            if live is not None:
                live.execution.instances.struck[path] = by
            await self.ledger.submit(run, [inbox.strike(self.ledger.names.new(), run, path, by)])

    async def add_todo(self, run: str, text: str, *, by: str = "") -> None:
        """Add an item to the to-do list of a run, which does it after the current plan.

        Raises `UnknownRun` for a run that has ended, and `NoTodo` for one without a to-do list.
        """
        async with self._waking:
            row = self.row(run)
            if row.ended is not None:
                raise UnknownRun(f"The run {run} has ended.")
            if not Plan.model_validate(self.ledger.read.value(row.plan)).uses(TODO_TOOL):
                raise NoTodo(f"The workflow {row.workflow!r} takes no further items.")
            await self.ledger.submit(run, [inbox.add(self.ledger.names.new(), run, text, by)])

    def questions(self, run: str) -> dict[str, Question]:
        """The open questions of a run, by path; empty for one that is not executed here."""
        self.row(run)
        return self._live[run].waiting.questions() if run in self._live else {}

    def runs(
        self,
        *,
        limit: int = 50,
        before: str | None = None,
        **wanted: Unpack[RunFilter],
    ) -> list[RunSummary]:
        """Runs, newest first; `before` is the last id of the page before."""
        rows = self.ledger.read.runs(limit=limit, before=before, **wanted)
        return [views.summary(row) for row in rows]

    def summary(self, run: str) -> RunSummary:
        """The line of a run in a list; raises `UnknownRun`."""
        return views.summary(self.row(run))

    def run(self, run: str) -> RunView:
        """Return everything about one run. Blocks for a second for 10,000 steps: use a thread."""
        return views.view(self.ledger.read, self.row(run))
