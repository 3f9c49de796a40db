"""Conversations: the runs of each, as turns of people and models."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

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
"""Turns that `all_turns` reads at once."""


class TurnQuestion(BaseModel):
    """One question of a turn's run to a person, and the answer once there is one."""

    path: str
    """The step that asks."""
    question: dict[str, Any]
    """The fields of `Question`."""
    open: bool
    """True while the run waits for the answer."""
    answer: Any = None
    """What a person answered; null when the time was over or the run was stopped before."""


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
    """What models wrote in the run, by their own count."""


class Unseen(BaseModel):
    """What the model did not see any more at the latest turn."""

    before: str
    """The run of the first turn that it saw whole."""
    partly: bool
    """Whether it saw a part of the turn before that."""


class ConversationSummary(BaseModel):
    """One line in the list of conversations."""

    id: str
    title: str
    updated: str


def turns(
    reader: Reader,
    conversation: str,
    limit: int,
    *,
    after: str = "",
    before: str | None = None,
) -> list[Turn]:
    """The last runs of a conversation, oldest first; only those between the runs named."""
    sql = """SELECT id, ifnull(ended, started) AS at, request, status, error, outputs,
            CASE WHEN status IN ('failed', 'cancelled') THEN
                (SELECT data ->> '$.text' FROM event WHERE event.run = run.id
                    AND type IN ('run.failed', 'run.cancelled')) END AS text,
            (SELECT ifnull(sum(completion_tokens), 0) FROM step WHERE step.run = run.id) AS tokens
        FROM run WHERE conversation = ? AND id > ? AND (? IS NULL OR id < ?)
        ORDER BY id DESC LIMIT ?"""
    rows = reader.rows(sql, (conversation, after, before, before, limit))[::-1]
    asked = _questions(reader, [row["id"] for row in rows])
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
        )
        for row in rows
    ]


def all_turns(reader: Reader, conversation: str) -> list[Turn]:
    """Every turn of a conversation, oldest first."""
    found: list[Turn] = []
    while page := turns(reader, conversation, PAGE, before=found[0].run if found else None):
        found = page + found
    return found


def unseen(reader: Reader, conversation: str) -> Unseen | None:
    """What the model no longer saw at the latest turn; None while it sees everything."""
    sql = """SELECT output FROM step WHERE tool = 'conversation.recall' AND status = 'done'
        AND run IN (SELECT id FROM run WHERE conversation = ? ORDER BY id DESC LIMIT 3)
        ORDER BY run DESC LIMIT 1"""
    for row in reader.rows(sql, (conversation,)):
        found = reader.value(row["output"])
        if found.get("since") and (found["left_out"] or found["shortened"]):
            return Unseen(before=found["since"], partly=found["shortened"])
    return None


def is_known(reader: Reader, conversation: str) -> bool:
    """True if a conversation is in the list of `conversations`, or has imported runs."""
    sql = "SELECT 1 FROM conversation WHERE id = ? UNION SELECT 1 FROM run WHERE conversation = ?"
    return bool(reader.rows(sql, (conversation, conversation)))


def conversations(
    reader: Reader, limit: int, owner: str = "", text: str = ""
) -> list[ConversationSummary]:
    """The conversations of one owner, the newest first; all of them for the built-in key.

    With `text`, those that have each of its words, or a word that begins with it, in their title
    or in the search index of one of their runs. Accents and case do not count.
    """
    words = WORD.findall(unicodedata.normalize("NFC", text))
    if text.strip() and not words:
        return []
    sql = """SELECT id, title, updated FROM conversation WHERE ? IN ('', owner)
        ORDER BY updated DESC, id LIMIT ?"""
    rows = reader.rows(sql, (owner, -1 if words else limit))
    found = [ConversationSummary(**dict(row)) for row in rows]
    for word in words:
        with_word = _with_word(reader, word)
        found = [each for each in found if each.id in with_word or _begins(each.title, word)]
    return found[:limit]


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
    sql = """SELECT id, title, updated FROM conversation WHERE id = ?1 UNION ALL
        SELECT conversation, '', max(started) FROM run WHERE conversation = ?1
        GROUP BY conversation LIMIT 1"""
    return ConversationSummary(**dict(reader.rows(sql, (conversation,))[0]))


async def rename(ledger: Ledger, conversation: str, title: str) -> None:
    """Set the title of a conversation. One of imported runs only becomes listed by that."""
    at = now()
    upsert = """INSERT INTO conversation (id, title, created, updated) VALUES (?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET title = excluded.title"""
    await ledger.submit("", [(upsert, (conversation, clean(title), at, at))])


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
    """Let `owner` go on with a conversation, which is created for it where there is none.

    Returns False where the conversation belongs to another owner. The row is inserted before it is
    read, so of two callers that create the same conversation at once one gets it.
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
    """The conversations with a run that has a word, or one that begins with it."""
    sql = """SELECT DISTINCT run.conversation AS id FROM run_fts
        JOIN run_text ON run_text.number = run_fts.rowid JOIN run ON run.id = run_text.run
        WHERE run_fts MATCH ? AND run.conversation IS NOT NULL"""
    return {row["id"] for row in reader.rows(sql, (f'"{word}"*',))}


def _begins(title: str, word: str) -> bool:
    """Whether a word of a title begins with a word, as the search index of runs compares them."""
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
    """The questions of these runs, in the order in which they were asked."""
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
