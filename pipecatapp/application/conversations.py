"""Conversations: find, show, rename, delete, export, and claim for a caller."""

import asyncio
import json
import re
from typing import Final, Literal

from pydantic import BaseModel

from pipecatapp.application import retention
from pipecatapp.application.engine import Engine
from pipecatapp.records import conversations as records
from pipecatapp.records.attachments import (
    Attachment,
    AttachmentContent,
    attachments_of,
    content_of,
)
from pipecatapp.records.conversations import (
    ContextUse,
    ConversationSettings,
    ConversationSummary,
    Turn,
    Unseen,
)

__all__ = [
    "ConversationDetail",
    "ConversationService",
    "ConversationSettings",
    "ConversationSummary",
    "DeletedConversation",
    "ExportFormat",
    "ExportedConversation",
    "UnknownConversation",
    "UnknownTurn",
]

ExportFormat = Literal["markdown", "json"]

FORMAT: Final = 1
"""Of the JSON of an exported conversation."""

_TITLE = 190
"""Characters of a title that the title of a branch repeats."""

_NAME = 60
"""Characters of the title in the name of an exported file."""


class UnknownConversation(LookupError):
    """No conversation has this id, or it belongs to another caller."""


class UnknownTurn(LookupError):
    """A conversation has no turn of this run."""


class ConversationDetail(BaseModel):
    """The last turns of a conversation, and what its model no longer saw."""

    id: str
    title: str
    turns: list[Turn]
    unseen: Unseen | None = None
    settings: ConversationSettings = ConversationSettings()
    context: ContextUse | None = None


class DeletedConversation(BaseModel):
    """The number of runs that were removed, and of notes that were saved in them and stay."""

    runs: int
    notes: int


class ExportedConversation(BaseModel):
    """A conversation as a file; `name` has no directory and may contain any characters."""

    name: str
    media_type: str
    text: str


class ConversationService:
    """The conversations in the ledger of an engine. `owner` is the name of a key, empty for the
    built-in one. Each method that names a conversation raises `UnknownConversation`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._ledger = engine, engine.ledger

    def find(
        self, text: str, limit: int, *, owner: str = ""
    ) -> tuple[list[ConversationSummary], int]:
        """Those with all words of `text`, the newest first, of all owners for the built-in key; and
        how many there are without the limit.
        """
        return records.conversations(self._ledger.read, limit, owner, text)

    def show(self, id: str, *, limit: int, after: str = "", owner: str = "") -> ConversationDetail:
        """The last turns that are shown, oldest first; only those after the run `after`, if that is
        one of them.
        """
        self._check(id, owner)
        read = self._ledger.read
        shown = records.path(read, id)
        wanted = shown[shown.index(after) + 1 :] if after in shown else shown
        members = records.members(read, id) if wanted else {}
        title = records.summary(read, id).title
        if (used := records.context_use(read, shown)) is not None:
            used.size = self._engine.facts.context(used.model)
        return ConversationDetail(
            id=id,
            title=title,
            turns=records.of_runs(read, wanted[-limit:], members),
            unseen=records.unseen(read, shown),
            settings=records.settings(read, id),
            context=used,
        )

    async def claim(self, id: str, owner: str, title: str) -> bool:
        """Let `owner` continue a conversation, or create it; returns False if another owns it."""
        return await records.claim(self._ledger, id, owner, title)

    async def change(
        self,
        id: str,
        *,
        title: str | None = None,
        pinned: bool | None = None,
        shown: str | None = None,
        settings: ConversationSettings | None = None,
        owner: str = "",
    ) -> ConversationSummary:
        """Rename a conversation, pin it before the others, set how it is answered, or show another
        version of a turn: the run `shown`, and the latest of the turns that follow it. Raises
        `UnknownTurn`.
        """
        self._check(id, owner)
        if shown is not None:
            self._check_turn(id, shown)
            await records.show(self._ledger, id, shown)
        if title is not None:
            await records.rename(self._ledger, id, title)
        if pinned is not None:
            await records.pin(self._ledger, id, pinned=pinned)
        if settings is not None:
            await records.set_settings(self._ledger, id, settings)
        return records.summary(self._ledger.read, id)

    async def branch(self, id: str, run: str, *, owner: str = "") -> ConversationSummary:
        """Create a conversation that starts with the turns up to `run`; raises `UnknownTurn`."""
        self._check(id, owner)
        self._check_turn(id, run)
        title = records.summary(self._ledger.read, id).title
        new = f"c-{self._ledger.names.new()}"
        await records.branch(self._ledger, id, run, new, f"{title[:_TITLE]} (branch)")
        return records.summary(self._ledger.read, new)

    def message(self, id: str, run: str, *, owner: str = "") -> tuple[str, list[Attachment]]:
        """Return the text and the attachments of a person's turn. Raises `UnknownTurn`."""
        self._check(id, owner)
        self._check_turn(id, run)
        [turn] = records.of_runs(self._ledger.read, [run], {})
        return turn.user, attachments_of(turn.parts)

    def attachment(self, id: str, run: str, number: int, *, owner: str = "") -> AttachmentContent:
        """The content of an attachment of a turn, counted from 0; raises `UnknownTurn`."""
        found = self.message(id, run, owner=owner)[1]
        if number >= len(found):
            raise UnknownTurn(f"The turn {run!r} has no attachment {number}.")
        return content_of(found[number])

    def settings(self, id: str, *, owner: str = "") -> ConversationSettings:
        """How the turns of a conversation are answered; the defaults for one that is not there."""
        read = self._ledger.read
        if not records.may_read(read, id, owner):
            return ConversationSettings()
        return records.settings(read, id)

    async def delete(self, id: str, *, owner: str = "") -> DeletedConversation:
        """Stop the unfinished runs of a conversation and delete all of its runs with their data. A
        run that starts meanwhile is deleted too. Notes stay, and so do the turns that another
        conversation shares.
        """
        self._check(id, owner)
        await records.hand_over(self._ledger, id)
        removed, read = 0, self._ledger.read
        while runs := records.runs_of(read, id):
            for run in (run for run, ended in runs.items() if not ended):
                await self._engine.cancel(run)
            await retention.delete(self._engine, list(runs))
            removed += len(runs)
        await records.forget(self._ledger, id)
        return DeletedConversation(runs=removed, notes=records.notes_of(read, id))

    async def export(
        self, id: str, format: ExportFormat, *, owner: str = ""
    ) -> ExportedConversation:
        """Return all turns of a conversation as Markdown, or as JSON with all fields; versions that
        are not shown are last.
        """
        self._check(id, owner)
        turns, others = await asyncio.to_thread(self._all_turns, id)
        about = records.summary(self._ledger.read, id)
        name = "-".join(re.findall(r"\w+", about.title))[:_NAME].strip("-") or "conversation"
        if format == "json":
            content = {"format": FORMAT, **about.model_dump()}
            content["turns"] = [turn.model_dump() for turn in turns]
            content["other_versions"] = [turn.model_dump() for turn in others]
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            return ExportedConversation(
                name=f"{name}.json", media_type="application/json", text=text
            )
        text = _markdown(about, turns, others)
        return ExportedConversation(name=f"{name}.md", media_type="text/markdown", text=text)

    def _all_turns(self, id: str) -> tuple[list[Turn], list[Turn]]:
        """The turns that are shown, and the others."""
        read = self._ledger.read
        shown, members = records.path(read, id), records.members(read, id)
        others = [run for run in members if run not in set(shown)]
        return records.of_runs(read, shown, members), records.of_runs(read, others, members)

    def _check_turn(self, id: str, run: str) -> None:
        if run not in records.members(self._ledger.read, id):
            raise UnknownTurn(f"The conversation {id!r} has no turn {run!r}.")

    def _check(self, id: str, owner: str) -> None:
        read = self._ledger.read
        if not (records.is_known(read, id) and records.may_read(read, id, owner)):
            raise UnknownConversation(f"There is no conversation {id!r}.")


def _markdown(about: ConversationSummary, turns: list[Turn], others: list[Turn]) -> str:
    """A conversation as a document that a person reads: a heading for each message."""
    title = " ".join(about.title.split()) or "Untitled"
    parts = [f"# {title}", *(part for turn in turns for part in _turn(turn))]
    if others:
        parts += ["# Other versions", *(part for turn in others for part in _turn(turn))]
    return "\n\n".join(parts) + "\n"


def _turn(turn: Turn) -> list[str]:
    parts = [f"## You ({turn.at})", turn.user.strip()]
    parts += [f"*Attached: {attached.name}*" for attached in turn.attachments]
    for asked in turn.questions:
        question = " ".join(str(asked.question.get("text", "")).split())
        answer = "not answered" if asked.answer is None else " ".join(str(asked.answer).split())
        parts.append(f"> Question: {question}\n>\n> Answer: {answer}")
    parts += ["## Hearth", turn.assistant.strip()]
    if turn.status != "done":
        reason = f": {turn.error}" if turn.error else ""
        parts.append(f"*({turn.status}{reason})*")
    return [part for part in parts if part]
