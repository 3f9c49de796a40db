"""The entries that one run writes.

Each method writes one entry: the event and the resulting state, in one transaction.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pipecatapp.workflow.ledger.clock import now
from pipecatapp.workflow.ledger.errors import LedgerFailed
from pipecatapp.workflow.ledger.event import Event, EventType
from pipecatapp.workflow.ledger.values import Statement, clean, pack
from pipecatapp.workflow.ledger.writer import Draft

Ending = Literal["done", "failed", "cancelled"]
_RUN_ENDS: Mapping[Ending, EventType] = {
    "done": "run.done",
    "failed": "run.failed",
    "cancelled": "run.cancelled",
}
_NODE_ENDS: Mapping[str, EventType] = {
    "done": "node.done",
    "skipped": "node.skipped",
    "failed": "node.failed",
    "cancelled": "node.cancelled",
}


TITLE = 80
"""Maximum characters of the request that are the title of a run or a conversation in a list."""


class Submit(Protocol):
    """`Ledger.submit`."""

    def __call__(
        self,
        run: str,
        statements: list[Statement],
        event: Draft | None = None,
        *,
        last: bool = False,
        pauses: bool = True,
        on_written: Callable[[LedgerFailed | None], None] | None = None,
    ) -> "asyncio.Future[Event | None]": ...


@dataclass(frozen=True)
class Fork:
    """The origin of a fork: its run, and the node from which everything is repeated."""

    origin: str
    family: str
    at: str | None = None


@dataclass(frozen=True)
class Begun:
    """An instance that is about to run."""

    path: str
    node: str
    tool: str | None = None
    version: int | None = None
    effect: str | None = None
    attempt: int = 1
    """0 for a jump, a merge, a note and a step that cannot start: `limits.nodes` does not count
    them."""
    key: str | None = None
    why: str = ""
    """Why it runs though an earlier run had it."""


@dataclass(frozen=True)
class Ended:
    """How an instance ended, and what is known of it."""

    output: Any = None
    error: str | None = None
    model: str | None = None
    prompt: Any = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    facts: Mapping[str, Any] | None = None


class Journal:
    """Entries go to the writer in order; `durable()` waits until all so far are on the disk."""

    def __init__(self, submit: Submit, run: str) -> None:
        self.run = run
        self._submit = submit
        self._submitted, self._told = 0, 0
        self._failed: LedgerFailed | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.broken: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when an entry could not be written."""

    async def durable(self) -> None:
        """Wait for the disk; raises `LedgerFailed` when it cannot."""
        if self._told == self._submitted:
            if self._failed is not None:
                raise self._failed
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._submitted, waiter))
        await waiter

    def begin(
        self,
        *,
        workflow: str,
        plan: object,
        inputs: Mapping[str, Any],
        request: str,
        conversation: str | None,
        caller: str,
        beside: Sequence[Statement] = (),
        interactive: bool = True,
        fork: Fork | None = None,
        instead_of: str | None = None,
    ) -> "asyncio.Future[Event | None]":
        """Write the start of the run; it exists once the future is done. `beside`: statements for
        the same transaction.

        In a conversation it is the turn after the last shown one, or another version of the turn
        `instead_of`, and is shown from now on. A fork is a version of the turn of its origin, and
        is shown if no turn follows that one. The future fails with `DiskFull` without space for it.
        """
        plan_column, statements = pack(plan, inline=0)
        inputs_column, more = pack(dict(inputs))
        request_column, still_more = pack(request)
        insert = """INSERT INTO run
            (id, workflow, status, conversation, caller, started, title, request, plan, inputs,
            interactive, forked, family, rerun, owner)
            VALUES (?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
            coalesce((SELECT owner FROM run WHERE id = ?),
                (SELECT owner FROM conversation WHERE id = ?), ''))"""
        row = (self.run, workflow, conversation, caller, now(), clean(request)[:TITLE])
        origin = (fork.origin, fork.family, fork.at) if fork else (None, self.run, None)
        columns = (request_column, plan_column, inputs_column)
        statements += [
            *more,
            *still_more,
            (insert, (*row, *columns, interactive, *origin, origin[0], conversation)),
            *beside,
        ]
        if conversation is not None:
            origin_turn = fork.origin if fork else None
            statements += _turn(self.run, conversation, request, instead_of or origin_turn)
            statements.append(_show(self.run, conversation, only_after=origin_turn))
        data: dict[str, object] = {"workflow": workflow}
        if fork:
            data |= {"forked": fork.origin, "at": fork.at}
        return self._add(statements, Draft("run.started", data=data), pauses=False)

    def resume(self) -> "asyncio.Future[Event | None]":
        """Record that the run continues in this process, once the future is done."""
        return self._add([], Draft("run.resumed"))

    def end(
        self,
        ending: Ending,
        *,
        outputs: Mapping[str, Any] | None = None,
        error: str | None = None,
        broken: bool = False,
        text: str = "",
    ) -> None:
        """End the run. `broken`: an entry was lost, so open steps are ended here.

        `text` is the text that an incomplete run had streamed.
        """
        column, statements = (None, []) if outputs is None else pack(dict(outputs))
        reason = None if error is None else clean(error)
        update = "UPDATE run SET status = ?, ended = ?, outputs = ?, error = ? WHERE id = ?"
        statements = [*statements, (update, (ending, now(), column, reason, self.run))]
        if broken:
            close = """UPDATE step SET status = 'cancelled', ended = ?, error = ?
                WHERE run = ? AND ended IS NULL"""
            statements.append((close, (now(), reason, self.run)))
        data = _said(error) | ({"text": clean(text)} if text else {})
        self._add(statements, Draft(_RUN_ENDS[ending], data=data), last=broken)

    def running(self, step: Begun, given: object) -> None:
        """An instance starts. Await `durable()` before the call is made."""
        column, statements = pack(given)
        insert = """INSERT INTO step
            (run, path, node, tool, version, effect, status, attempt, started, input, key)
            VALUES (?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?)
            ON CONFLICT (run, path) DO UPDATE SET
            status = 'running', attempt = excluded.attempt, ended = NULL, error = NULL"""
        row = (self.run, step.path, step.node, step.tool, step.version, step.effect, step.attempt)
        facts = (("tool", step.tool), ("effect", step.effect), ("why", step.why))
        data: dict[str, object] = {name: value for name, value in facts if value}
        data["attempt"] = max(step.attempt, 1)
        event = Draft("node.running", step.path, step.node, data)
        self._add([*statements, (insert, (*row, now(), column, step.key))], event)

    def waiting(self, step: Begun, given: object, question: Mapping[str, Any]) -> None:
        """An instance waits for a person: the only entry of its beginning."""
        column, statements = pack(given)
        facts, more = pack({"question": dict(question)})
        insert = """INSERT INTO step
            (run, path, node, tool, version, effect, status, attempt, started, input, facts, key)
            VALUES (?, ?, ?, ?, ?, ?, 'waiting', ?, ?, ?, ?, ?)
            ON CONFLICT (run, path) DO UPDATE SET
            status = 'waiting', facts = excluded.facts, ended = NULL, error = NULL"""
        row = (self.run, step.path, step.node, step.tool, step.version, step.effect, step.attempt)
        statements += [*more, (insert, (*row, now(), column, facts, step.key)), self._status()]
        data: dict[str, object] = {"tool": step.tool, "effect": step.effect}
        data["question"] = dict(question)
        self._add(statements, Draft("node.waiting", step.path, step.node, data))

    def _status(self) -> Statement:
        """A run waits as long as one of its steps does."""
        update = """UPDATE run SET status = CASE WHEN EXISTS (SELECT 1 FROM step
            WHERE step.run = run.id AND step.status = 'waiting') THEN 'waiting' ELSE 'running' END
            WHERE id = ? AND ended IS NULL"""
        return update, (self.run,)

    def note(self, statement: Statement, text: str, by: str) -> "asyncio.Future[Event | None]":
        """A person has a remark to the run."""
        return self._add([statement], Draft("run.note", data={"text": clean(text), "by": by}))

    def queued(self, path: str, node: str, wait: float, what: Ended) -> None:
        """An instance has failed and is tried again in `wait` seconds."""
        update = """UPDATE step SET status = 'queued', error = ?,
            prompt_tokens = prompt_tokens + ?, completion_tokens = completion_tokens + ?,
            cost = cost + ? WHERE run = ? AND path = ?"""
        spent = (what.prompt_tokens, what.completion_tokens, what.cost)
        row = (clean(what.error or ""), *spent, self.run, path)
        event = Draft("node.queued", path, node, {"wait": wait, **_said(what.error)})
        self._add([(update, row)], event)

    def skipped(self, path: str, node: str, reason: str) -> None:
        """Record a skipped step with the reason."""
        insert = """INSERT OR REPLACE INTO step
            (run, path, node, status, attempt, started, ended, error)
            VALUES (?, ?, ?, 'skipped', 0, ?, ?, ?)"""
        at = now()
        event = Draft("node.skipped", path, node, {"reason": reason})
        self._add([(insert, (self.run, path, node, at, at, clean(reason)))], event)

    def taken(self, step: Begun, given: object, output: str, told: Mapping[str, Any]) -> None:
        """Record a step that reuses the output of an earlier one; it has no other entry."""
        column, statements = pack(given)
        facts, more = pack(dict(told))
        insert = """INSERT OR REPLACE INTO step
            (run, path, node, tool, version, effect, status, attempt, started, ended, input,
            output, facts, key) VALUES (?, ?, ?, ?, ?, ?, 'done', 0, ?, ?, ?, ?, ?, ?)"""
        at = now()
        row = (self.run, step.path, step.node, step.tool, step.version, step.effect, at, at)
        statements += [*more, (insert, (*row, column, output, facts, step.key))]
        self._add(statements, Draft("node.done", step.path, step.node, {"cached": told["cached"]}))

    def ended(
        self,
        path: str,
        node: str,
        ending: Ending,
        what: Ended,
        beside: Sequence[Statement] = (),
    ) -> None:
        """Record the end of a step. `beside`: statements for the same transaction."""
        output, statements = pack(what.output) if ending == "done" else (None, [])
        prompt, more = (None, []) if what.prompt is None else pack(what.prompt)
        facts, still_more = pack(dict(what.facts)) if what.facts else (None, [])
        update = """UPDATE step SET status = ?, ended = ?, output = ?, error = ?,
            model = ?, prompt = ?, prompt_tokens = prompt_tokens + ?,
            completion_tokens = completion_tokens + ?, cost = cost + ?, facts = ?
            WHERE run = ? AND path = ?"""
        reason = None if what.error is None else clean(what.error)
        spent = (what.prompt_tokens, what.completion_tokens, what.cost)
        row = (ending, now(), output, reason, what.model, prompt, *spent, facts, self.run, path)
        statements += [*more, *still_more, (update, row), *beside]
        if ending == "cancelled" or (what.facts and "question" in what.facts):
            statements.append(self._status())
        tokens = (
            {"tokens": what.prompt_tokens + what.completion_tokens} if what.prompt_tokens else {}
        )
        self._add(
            statements,
            Draft(_NODE_ENDS[ending], path, node, {**tokens, **_by(what), **_said(what.error)}),
        )

    def _add(
        self,
        statements: list[Statement],
        event: Draft,
        *,
        last: bool = False,
        pauses: bool = True,
    ) -> "asyncio.Future[Event | None]":
        self._submitted += 1
        return self._submit(
            self.run, statements, event, last=last, pauses=pauses, on_written=self._written
        )

    def _written(self, error: LedgerFailed | None) -> None:
        """The next entry is on the disk, or cannot be written."""
        self._told, self._failed = self._told + 1, error
        if error is not None and not self.broken.done():
            self.broken.set_result(error)
        while self._waiting and self._waiting[0][0] <= self._told:
            _, waiter = self._waiting.popleft()
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)


def _by(what: Ended) -> dict[str, object]:
    """Return the person that answered, if the step was a question."""
    return {"by": what.facts["by"]} if what.facts and "by" in what.facts else {}


def _said(error: str | None) -> dict[str, object]:
    return {} if error is None else {"error": clean(error)[:500]}


def _turn(run: str, conversation: str, request: str, version_of: str | None) -> list[Statement]:
    """Create the conversation of a run where there is none, and put the run into its place."""
    at = now()
    touch = """INSERT INTO conversation (id, title, created, updated) VALUES (?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET updated = excluded.updated"""
    place = """UPDATE run SET previous = CASE WHEN ?2 IS NOT NULL
            THEN (SELECT previous FROM run WHERE id = ?2)
            ELSE coalesce((SELECT head FROM conversation WHERE id = ?3),
                (SELECT max(id) FROM run WHERE conversation = ?3 AND id < ?1)) END
        WHERE id = ?1"""
    return [
        (touch, (conversation, clean(request)[:TITLE], at, at)),
        (place, (run, version_of, conversation)),
    ]


def _show(run: str, conversation: str, *, only_after: str | None) -> Statement:
    """Make a run the last turn that is shown; with `only_after` if that is the last one now."""
    last = "coalesce(head, (SELECT max(id) FROM run WHERE conversation = ?2 AND id != ?1))"
    sql = f"""UPDATE conversation SET head =
        CASE WHEN ?3 IS NULL OR ?3 IS {last} THEN ?1 ELSE {last} END WHERE id = ?2"""
    return sql, (run, conversation, only_after)
