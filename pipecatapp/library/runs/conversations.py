"""Conversations: the runs of each, as turns of people and models."""

from typing import Any

from pydantic import BaseModel

from pipecatapp.workflow.ledger.reading import Reader
from pipecatapp.workflow.ledger.values import canonical


class Turn(BaseModel):
    """One exchange of a conversation: a finished run's request and answer."""

    run: str
    at: str
    user: str
    assistant: str


class ConversationSummary(BaseModel):
    """One line in the list of conversations."""

    id: str
    title: str
    updated: str


def turns(reader: Reader, conversation: str, limit: int) -> list[Turn]:
    """The last finished runs of a conversation, oldest first."""
    sql = """SELECT id, ended, request, outputs FROM run WHERE conversation = ? AND status = 'done'
        ORDER BY id DESC LIMIT ?"""
    rows = reader.rows(sql, (conversation, limit))
    return [
        Turn(
            run=row["id"],
            at=row["ended"],
            user=reader.value(row["request"]),
            assistant=_answer(reader.value(row["outputs"])),
        )
        for row in reversed(rows)
    ]


def conversations(reader: Reader, limit: int) -> list[ConversationSummary]:
    """The conversations, the newest first."""
    rows = reader.rows(
        "SELECT id, title, updated FROM conversation ORDER BY updated DESC, id LIMIT ?", (limit,)
    )
    return [ConversationSummary(**dict(row)) for row in rows]


def _answer(outputs: dict[str, Any]) -> str:
    text = outputs.get("text")
    return text if isinstance(text, str) else canonical(outputs)
