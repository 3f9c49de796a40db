"""Conversations: the runs of each, as turns of people and models."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.records.attachments import AttachmentSummary, attachments_of, summary_of
from pipecatapp.workflow import Ledger, Status
from pipecatapp.workflow.storage import (
    TITLE,
    WORD,
    Reader,
    answers,
    canonical,
    clean,
    now,
    read_json,
)

PAGE = 500
"""Turns that are read in one query."""


class TurnQuestion(BaseModel):
    """One question of a turn's run to a person, and the answer once there is one."""

    path: str
    """The step that asks the question."""
    question: dict[str, Any]
    """The fields of `Question`."""
    open: bool
    """True while the run waits for the answer."""
    answer: Any = None
    """The person's answer; null after a timeout or if the run was stopped before."""


class Turn(BaseModel):
    """One exchange of a conversation: the request and the answer of a run of any status."""

    run: str
    at: str
    """When the run ended, or began while it has not ended: ISO 8601, UTC."""
    user: str
    assistant: str
    """The answer; the streamed text of a stopped or failed run; empty while it runs."""
    status: Status = "done"
    error: str | None = None
    questions: list[TurnQuestion] = []
    tokens: int = 0
    """Tokens that models generated in the run, as they reported."""
    previous: str | None = None
    """The run of the turn before; null for the first one."""
    versions: list[str] = []
    """The runs of all versions of this turn, the oldest first; itself is one of them."""
    attachments: list[AttachmentSummary] = []
    """The files and images of the request."""
    parts: list[dict[str, Any]] = Field(default_factory=list, exclude=True)
    """The request as content parts, where it has attachments."""
    model: str = ""
    """The model that answered last in the run; empty while none has."""
    speed: float | None = None
    """Tokens per second of the answer, from its first token on; null where that is not known."""


class Unseen(BaseModel):
    """The part of a conversation that was left out of the prompt of the latest turn."""

    before: str
    """The run of the first turn that it saw whole."""
    partly: bool
    """Whether it saw a part of the turn before that."""


class ConversationSettings(BaseModel):
    """How the turns of a conversation are answered; a field that is null is the model's choice."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(default=None, min_length=1, max_length=200)
    """The agent, a workflow, or `expert/` and the name of an expert."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    """The longest answer, in tokens."""
    system: str | None = Field(default=None, max_length=20_000)
    """Instructions for the model in addition to its own."""


class ContextUse(BaseModel):
    """How much of its context a model used for the latest answer, in tokens."""

    model: str
    used: int
    """Tokens of prompt and answer."""
    size: int | None = None
    """Context size of the model, in tokens; null: unknown."""


class ConversationSummary(BaseModel):
    """One line in the list of conversations."""

    id: str
    title: str
    updated: str
    pinned: bool = False
    """Whether it is listed before the others."""


_SUMMARY = "id, title, updated, pinned IS NOT NULL AS pinned"

_HEAD = """coalesce((SELECT head FROM conversation WHERE id = ?1),
    (SELECT max(id) FROM run WHERE conversation = ?1))"""
"""SQL: the last turn of a conversation that is shown."""

_MEMBERS = """WITH RECURSIVE shared(id) AS (
        SELECT origin FROM conversation WHERE id = ?1 AND origin IS NOT NULL
        UNION SELECT previous FROM shared JOIN run USING (id) WHERE previous IS NOT NULL),
    member(id) AS (SELECT id FROM run WHERE conversation = ?1
        UNION SELECT id FROM shared)
    SELECT id, previous FROM member JOIN run USING (id) ORDER BY id"""
"""SQL: every version of every turn of a conversation, including turns shared with its origin."""


_LAST_CALL = """FROM step WHERE step.run = run.id AND tool = 'llm' AND status = 'done'
    ORDER BY started DESC, path DESC LIMIT 1"""
_ANSWERED = f"""(SELECT model {_LAST_CALL}) AS model,
    (SELECT CASE WHEN json_valid(facts) THEN facts ->> '$.tokens_per_second' END {_LAST_CALL})
        AS speed"""
"""SQL: the model of the last call of a run, and how fast it wrote."""


def path(reader: Reader, conversation: str, *, before: str | None = None) -> list[str]:
    """The runs of the turns that are shown, oldest first. With `before`, a run of the conversation:
    those that it follows, whatever is shown now.
    """
    sql = f"""WITH RECURSIVE path(id) AS (
            SELECT CASE WHEN EXISTS
                    (SELECT 1 FROM run WHERE id = ?2 AND conversation = ?1)
                THEN (SELECT previous FROM run WHERE id = ?2) ELSE {_HEAD} END
            UNION SELECT previous FROM path JOIN run USING (id))
        SELECT id FROM path JOIN run USING (id) ORDER BY id"""
    found = reader.rows(sql, (conversation, before))
    return [row["id"] for row in found]


def members(reader: Reader, conversation: str) -> Mapping[str, str | None]:
    """The runs of all versions of all turns, oldest first, and what each follows."""
    found = reader.rows(_MEMBERS, (conversation,))
    return {row["id"]: row["previous"] for row in found}


def turns(
    reader: Reader, conversation: str, limit: int, *, before: str | None = None
) -> list[Turn]:
    """The last turns that are shown, oldest first; with `before`, those that a run of the
    conversation follows. Versions are left out.
    """
    return of_runs(reader, path(reader, conversation, before=before)[-limit:], {})


def of_runs(reader: Reader, runs: Sequence[str], others: Mapping[str, str | None]) -> list[Turn]:
    """These runs as turns; their versions are among `others`, which maps runs to those before."""
    versions: dict[str | None, list[str]] = {}
    for run, previous in others.items():
        versions.setdefault(previous, []).append(run)
    return [
        turn.model_copy(update={"versions": versions.get(turn.previous, [turn.run])})
        for first in range(0, len(runs), PAGE)
        for turn in _turns(reader, runs[first : first + PAGE])
    ]


def _turns(reader: Reader, runs: Sequence[str]) -> list[Turn]:
    sql = f"""SELECT id, ifnull(ended, started) AS at, request, status, error, outputs, previous,
            CASE WHEN status IN ('failed', 'cancelled') THEN
                (SELECT data ->> '$.text' FROM event WHERE event.run = run.id
                    AND type IN ('run.failed', 'run.cancelled')) END AS text,
            (SELECT ifnull(sum(completion_tokens), 0) FROM step WHERE step.run = run.id) AS tokens,
            CASE WHEN instr(inputs, '"parts"') OR substr(inputs, 1, 8) = '@sha256:' THEN inputs END
                AS inputs, {_ANSWERED}
        FROM run WHERE id IN ({", ".join("?" * len(runs))}) ORDER BY id"""
    rows = reader.rows(sql, runs)
    asked = _questions(reader, runs)
    return [
        Turn(
            run=row["id"],
            at=row["at"],
            user=reader.value(row["request"]),
            assistant=_answer(reader.value(row["outputs"]), row["text"]),
            status=row["status"],
            error=row["error"],
            questions=asked.get(row["id"], []),
            tokens=row["tokens"],
            previous=row["previous"],
            model=row["model"] or "",
            speed=row["speed"],
            **_message(reader.value(row["inputs"])),
        )
        for row in rows
    ]


def _message(inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of a turn that come from the inputs of its run."""
    parts = (inputs or {}).get("parts") or []
    return {"parts": parts, "attachments": [summary_of(one) for one in attachments_of(parts)]}


def unseen(reader: Reader, shown: Sequence[str]) -> Unseen | None:
    """Return the part left out of the prompt of the latest turn; None if there is none."""
    sql = """SELECT output FROM step WHERE tool = 'conversation.recall' AND status = 'done'
        AND run IN (?, ?, ?) ORDER BY run DESC LIMIT 1"""
    for row in reader.rows(sql, [*shown[-3:], "", "", ""][:3]):
        found = reader.value(row["output"])
        if found.get("since") and (found["left_out"] or found["shortened"]):
            return Unseen(before=found["since"], partly=found["shortened"])
    return None


def context_use(reader: Reader, shown: Sequence[str]) -> ContextUse | None:
    """Return the context use of the latest answer, without `size`; None if no model has
    answered.
    """
    sql = """SELECT model, prompt_tokens + completion_tokens AS used FROM step
        WHERE run = ? AND tool = 'llm' AND status = 'done'
        ORDER BY started DESC, path DESC LIMIT 1"""
    for run in reversed(shown[-2:]):
        for row in reader.rows(sql, (run,)):
            if row["used"] and row["model"]:
                return ContextUse(model=row["model"], used=row["used"])
    return None


def is_known(reader: Reader, conversation: str) -> bool:
    """True if a conversation is in the list of `conversations`, or has imported runs."""
    sql = "SELECT 1 FROM conversation WHERE id = ? UNION SELECT 1 FROM run WHERE conversation = ?"
    return bool(reader.rows(sql, (conversation, conversation)))


def conversations(
    reader: Reader, limit: int, owner: str = "", text: str = ""
) -> tuple[list[ConversationSummary], int]:
    """Return the conversations of one owner, pinned ones first, then by time, the newest first, all
    conversations for the built-in key; and their number without the limit.

    With `text`, only those that contain each of its words, or a word that begins with it, in their
    title or in the search index of one of their runs. Accents and case are ignored.
    """
    words = WORD.findall(unicodedata.normalize("NFC", text))
    if text.strip() and not words:
        return [], 0
    sql = f"""SELECT {_SUMMARY} FROM conversation WHERE ? IN ('', owner)
        ORDER BY pinned IS NULL, updated DESC, id LIMIT ?"""
    rows = reader.rows(sql, (owner, -1 if words else limit))
    if not words:
        count = "SELECT count(*) FROM conversation WHERE ? IN ('', owner)"
        total = int(reader.rows(count, (owner,))[0][0])
        return [ConversationSummary(**dict(row)) for row in rows], total
    found = [ConversationSummary(**dict(row)) for row in rows]
    for word in words:
        with_word = _with_word(reader, word)
        found = [each for each in found if each.id in with_word or _begins(each.title, word)]
    return found[:limit], len(found)


class OwnerSummary(BaseModel):
    """How many conversations a key has, and when the newest was changed (ISO 8601, UTC)."""

    owner: str
    conversations: int
    updated: str


def owners(reader: Reader) -> list[OwnerSummary]:
    """The keys that have conversations; the built-in key is the empty name."""
    sql = """SELECT owner, count(*) AS conversations, max(updated) AS updated FROM conversation
        GROUP BY owner ORDER BY owner"""
    return [OwnerSummary(**dict(row)) for row in reader.rows(sql)]


def of_owner(reader: Reader, owner: str, limit: int) -> list[ConversationSummary]:
    """The conversations of exactly one key, the newest first."""
    sql = """SELECT id, title, updated FROM conversation WHERE owner = ?
        ORDER BY updated DESC, id LIMIT ?"""
    return [ConversationSummary(**dict(row)) for row in reader.rows(sql, (owner, limit))]


def summary(reader: Reader, conversation: str) -> ConversationSummary:
    """The line of a conversation; one of imported runs only has no title."""
    sql = f"""SELECT {_SUMMARY} FROM conversation WHERE id = ?1 UNION ALL
        SELECT conversation, '', max(started), 0 FROM run WHERE conversation = ?1
        GROUP BY conversation LIMIT 1"""
    return ConversationSummary(**dict(reader.rows(sql, (conversation,))[0]))


async def rename(ledger: Ledger, conversation: str, title: str) -> None:
    """Set the title of a conversation. One of imported runs only becomes listed by that."""
    at = now()
    upsert = """INSERT INTO conversation (id, title, created, updated) VALUES (?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET title = excluded.title"""
    await ledger.submit("", [(upsert, (conversation, clean(title), at, at))])


def settings(reader: Reader, conversation: str) -> ConversationSettings:
    """How the turns of a conversation are answered."""
    sql = "SELECT settings FROM conversation WHERE id = ?"
    for row in reader.rows(sql, (conversation,)):
        return ConversationSettings.model_validate_json(row["settings"])
    return ConversationSettings()


async def set_settings(ledger: Ledger, conversation: str, chosen: ConversationSettings) -> None:
    """Answer the turns of a conversation so from now on."""
    update = "UPDATE conversation SET settings = ? WHERE id = ?"
    text = clean(chosen.model_dump_json(exclude_none=True))
    await ledger.submit("", [(update, (text, conversation))])


async def pin(ledger: Ledger, conversation: str, *, pinned: bool) -> None:
    """List a conversation before the others, or no longer."""
    at = now()
    upsert = """INSERT INTO conversation (id, title, created, updated, pinned)
        VALUES (?, '', ?, ?, ?) ON CONFLICT (id) DO UPDATE SET pinned = excluded.pinned"""
    await ledger.submit("", [(upsert, (conversation, at, at, at if pinned else None))])


async def show(ledger: Ledger, conversation: str, run: str) -> None:
    """Show this version of a turn from now on, and the latest of the turns that follow it."""
    below: set[str | None] = {run}
    for member, previous in members(ledger.read, conversation).items():
        if previous in below:
            below.add(member)
    at = now()
    upsert = """INSERT INTO conversation (id, title, created, updated, head)
        VALUES (?, '', ?, ?, ?) ON CONFLICT (id) DO UPDATE SET head = excluded.head"""
    await ledger.submit("", [(upsert, (conversation, at, at, max(filter(None, below))))])


async def branch(ledger: Ledger, conversation: str, run: str, new: str, title: str) -> None:
    """Create a conversation of the same owner that starts with the turns up to `run`."""
    at = now()
    insert = """INSERT INTO conversation
        (id, title, created, updated, owner, head, origin, settings)
        SELECT ?1, ?2, ?3, ?3, ifnull(max(owner), ''), ?4, ?4, ifnull(max(settings), '{}')
        FROM conversation WHERE id = ?5"""
    await ledger.submit("", [(insert, (new, clean(title), at, run, conversation))])


async def hand_over(ledger: Ledger, conversation: str) -> None:
    """Move the turns that a deleted conversation shares with its branches to one branch each."""
    sql = """WITH RECURSIVE shared(branch, id) AS (
            SELECT id, origin FROM conversation WHERE id != ?1 AND origin IS NOT NULL
            UNION SELECT branch, previous FROM shared JOIN run USING (id)
                WHERE previous IS NOT NULL)
        UPDATE run SET conversation = (SELECT min(branch) FROM shared WHERE shared.id = run.id)
        WHERE conversation = ?1 AND id IN (SELECT id FROM shared)"""
    await ledger.submit("", [(sql, (conversation,))])


async def forget(ledger: Ledger, conversation: str) -> None:
    """Remove the row of a conversation that has no runs."""
    sql = """DELETE FROM conversation WHERE id = ?1
        AND NOT EXISTS (SELECT 1 FROM run WHERE conversation = ?1)"""
    await ledger.submit("", [(sql, (conversation,))])


def runs_of(reader: Reader, conversation: str) -> Mapping[str, bool]:
    """The ids of the runs of a conversation, oldest first, and whether each has ended."""
    sql = "SELECT id, ended FROM run WHERE conversation = ? ORDER BY id"
    return {row["id"]: row["ended"] is not None for row in reader.rows(sql, (conversation,))}


def notes_of(reader: Reader, conversation: str) -> int:
    """The number of notes that were saved in a conversation."""
    sql = "SELECT count(*) AS number FROM note WHERE source ->> '$.conversation' = ?"
    return int(reader.rows(sql, (conversation,))[0]["number"])


def may_read(reader: Reader, conversation: str, owner: str) -> bool:
    """Whether `owner` (the name of a key, empty for the built-in one) may read a conversation."""
    sql = "SELECT 1 FROM conversation WHERE id = ? AND owner = ?"
    return not owner or bool(reader.rows(sql, (conversation, owner)))


async def claim(ledger: Ledger, conversation: str, owner: str, title: str) -> bool:
    """Let `owner` continue a conversation, which is created if it does not exist.

    Returns False if the conversation belongs to another owner. The row is inserted before it is
    read, so if two callers create the same conversation concurrently, one gets it.
    """
    if may_read(ledger.read, conversation, owner):
        return True
    at = now()
    insert = """INSERT OR IGNORE INTO conversation (id, title, created, updated, owner)
        SELECT ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM run WHERE conversation = ?)"""
    row = (conversation, clean(title)[:TITLE], at, at, owner, conversation)
    await ledger.submit("", [(insert, row)])
    return may_read(ledger.read, conversation, owner)


def _with_word(reader: Reader, word: str) -> set[str]:
    """Return the conversations with a run that contains a word, or one that begins with it."""
    sql = """WITH RECURSIVE shared(branch, id) AS (
            SELECT id, origin FROM conversation WHERE origin IS NOT NULL
            UNION SELECT branch, previous FROM shared JOIN run USING (id)
                WHERE previous IS NOT NULL),
        hit AS (SELECT run.id, run.conversation FROM run_fts
            JOIN run_text ON run_text.number = run_fts.rowid JOIN run ON run.id = run_text.run
            WHERE run_fts MATCH ?)
        SELECT conversation AS id FROM hit WHERE conversation IS NOT NULL
        UNION SELECT branch FROM hit JOIN shared USING (id)"""
    return {row["id"] for row in reader.rows(sql, (f'"{word}"*',))}


def _begins(title: str, word: str) -> bool:
    """Return whether a title has a word with this prefix, compared like the search index of
    runs."""
    begin = _plain(word)
    return any(each.startswith(begin) for each in WORD.findall(_plain(title)))


def _plain(text: str) -> str:
    """Lower case without accents, as the tokenizer `unicode61 remove_diacritics 2` has it."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(each for each in decomposed if not unicodedata.combining(each))


def _answer(outputs: Mapping[str, Any] | None, streamed: str | None) -> str:
    if outputs is None:
        return streamed or ""
    text = outputs.get("text")
    return text if isinstance(text, str) else canonical(outputs)


def _questions(reader: Reader, runs: Sequence[str]) -> Mapping[str, list[TurnQuestion]]:
    """Return the questions of these runs, in order of their time."""
    marks = ", ".join("?" * len(runs))
    sql = f"""SELECT event.run, event.path, data ->> '$.question' AS question, step.status
        FROM event JOIN step ON step.run = event.run AND step.path = event.path
        WHERE event.run IN ({marks}) AND event.type = 'node.waiting' ORDER BY seq"""
    found: dict[str, dict[str, TurnQuestion]] = {}
    for row in reader.rows(sql, runs):
        answer = answers(reader, row["run"]).get(row["path"])
        found.setdefault(row["run"], {})[row["path"]] = TurnQuestion(
            path=row["path"],
            question=read_json(row["question"]),
            open=row["status"] == "waiting" and answer is None,
            answer=None if answer is None else answer.value,
        )
    return {run: list(questions.values()) for run, questions in found.items()}
