"""Keep the beginning of a prompt the same from turn to turn, so that a server's cache holds it.

A server reuses what it has read of a prompt up to the first token that differs. A clock in the
system prompt changes with each turn, so the whole conversation after it is read again. Such lines
are moved to the end of the prompt, where the model still reads them.

Volatile lines are recognised by rule, or by comparing the system prompts of one conversation: those
that are the same but for numbers and checksums.
"""

import re
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec
import orjson

from moe_gateway.routing.body import WORTH_KEEPING, Look, changed
from moe_gateway.routing.turns import SYSTEM_TEXT

Json = dict[str, Any]
Lines = tuple[str, ...]

BILLING: Final = "x-anthropic-billing-header:"
"""Prefix of a line of Claude Code with a checksum that changes with every turn. It has no
meaning for a model, so it is removed."""

CLOCK: Final = re.compile(
    r"^\W*(the )?(current|local|today's|now\b)[^\n]{0,60}?\d{1,2}:\d\d"
    r"|\b(time|date|now|today)\b[^\n]{0,60}?\d{4}-\d\d-\d\d[T ]\d\d:\d\d",
    re.IGNORECASE,
)
"""A line that contains a time. A date alone changes once a day."""

LONGEST_CLOCK: Final = 300
"""Maximum characters of a line with a time. A longer one is a paragraph."""

VOLATILE_WORD: Final = re.compile(r"\w*\d\w*")
"""A number, or a checksum with a digit in it."""

MOST_LINES: Final = 8
MOST_BYTES: Final = 2000
"""Of volatile lines. More of them are content, not a header, and stay where they are."""

REMEMBERED: Final = 512
"""Conversations, and system prompts, that are remembered; the oldest are forgotten."""

_MESSAGES: Final = msgspec.json.Decoder(list[msgspec.Raw])


class _System(msgspec.Struct):
    role: str
    content: str


class _Role(msgspec.Struct):
    role: str


class _Key(msgspec.Struct):
    prompt_cache_key: str | None = None


_KEY: Final = msgspec.json.Decoder(_Key)
_SYSTEM: Final = msgspec.json.Decoder(_System)
_ROLE: Final = msgspec.json.Decoder(_Role)


@dataclass(frozen=True, slots=True)
class Stable:
    """A body whose beginning stays the same, and what its caller has to know of the change."""

    body: bytes
    notice: str = ""


class Prefixes:
    """Finds volatile lines and moves them. Keeps hashes and the numbers of lines, no text."""

    def __init__(self) -> None:
        self._plain: OrderedDict[Hashable, None] = OrderedDict()
        """Caller, conversation and hash of system prompts that have no volatile line."""
        self._last: OrderedDict[Hashable, tuple[int, ...]] = OrderedDict()
        """Conversation -> the hash of each line of its last system prompt."""
        self._learned: OrderedDict[Hashable, frozenset[int]] = OrderedDict()
        """Caller and form of a system prompt -> the places of its volatile lines."""

    def stable(self, caller: str, session: bytes, body: bytes, look: Look) -> Stable:
        """Return the body of a chat without volatile lines in its system prompt.

        `session` is the caller's id of the conversation; empty if it has none. A body that is not
        worth caching, or whose system prompt is not text, is returned unchanged.
        """
        if len(body) < WORTH_KEEPING:
            return Stable(body)
        try:
            messages = _MESSAGES.decode(look.messages)
            system = _SYSTEM.decode(messages[0]) if len(messages) > 1 else None
            if system is None or system.role not in ("system", "developer"):
                return Stable(body)
            if not session and b'"prompt_cache_key"' in body:
                session = (_KEY.decode(body).prompt_cache_key or "").encode()
            return self._without_volatile(caller, session, body, messages, system)
        except msgspec.DecodeError:  # It is left to the server to judge.
            return Stable(body)

    def _without_volatile(
        self,
        caller: str,
        session: bytes,
        body: bytes,
        messages: list[msgspec.Raw],
        system: _System,
    ) -> Stable:
        conversation = _conversation(session, messages)
        mark = caller, conversation, hash(system.content)
        if mark in self._plain:
            return Stable(body)
        lines = tuple(system.content.split("\n"))
        dropped = {n for n, line in enumerate(lines) if line.startswith(BILLING)}
        moved = self._volatile(caller, conversation, lines) - dropped
        if sum(len(lines[n]) for n in moved) > MOST_BYTES:
            moved = set()
        if not dropped and not moved:
            _remember(self._plain, mark, None)
            return Stable(body)
        return Stable(_rewritten(body, messages, system, dropped, moved), _notice(dropped, moved))

    def _volatile(self, caller: str, conversation: bytes, lines: Lines) -> set[int]:
        """The places of the lines that change from turn to turn."""
        form = caller, hash(VOLATILE_WORD.sub("#", "\n".join(lines)))
        if conversation:
            self._compare((form, conversation), form, lines)
        short = ((n, line) for n, line in enumerate(lines) if len(line) <= LONGEST_CLOCK)
        by_rule = {n for n, line in short if CLOCK.search(line)}
        found = by_rule | self._learned.get(form, frozenset())
        return found if len(found) <= MOST_LINES else set()

    def _compare(self, conversation: Hashable, form: Hashable, lines: Lines) -> None:
        """Learn which lines differ from those of the conversation's last turn."""
        hashes = tuple(map(hash, lines))
        before = self._last.get(conversation, hashes)
        differ = {n for n, pair in enumerate(zip(before, hashes, strict=True)) if len({*pair}) > 1}
        if 0 < len(differ) <= MOST_LINES:
            known = self._learned.get(form, frozenset())
            _remember(self._learned, form, known | differ)
        _remember(self._last, conversation, hashes)


def _remember(memory: OrderedDict[Hashable, Any], key: Hashable, value: Any) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)


def _conversation(session: bytes, messages: list[msgspec.Raw]) -> bytes:
    """Return the key of the conversation: its session, else its messages up to the first answer.
    Two conversations may start with the same question, but rarely with the same answer. Empty
    before the first answer."""
    if session:
        return session
    hashed = blake2b(digest_size=16)
    for message in messages[1:]:
        hashed.update(message)
        if _ROLE.decode(message).role == "assistant":
            return hashed.digest()
    return b""


def _rewritten(
    body: bytes, messages: list[msgspec.Raw], system: _System, dropped: set[int], moved: set[int]
) -> bytes:
    lines = system.content.split("\n")
    kept = "\n".join(line for n, line in enumerate(lines) if n not in dropped | moved)
    first = orjson.dumps({"role": system.role, "content": kept})
    rest = [bytes(message) for message in messages[1:]]
    if moved:
        rest = _with_end(rest, "\n".join(lines[n] for n in sorted(moved)))
    return changed(body, messages=orjson.Fragment(b"[" + b",".join([first, *rest]) + b"]"))


def _with_end(rest: list[bytes], text: str) -> list[bytes]:
    """The messages with that text at their end: in the last turn of the user, else as one."""
    marked = SYSTEM_TEXT.format(text)
    last: Json = orjson.loads(rest[-1])
    content = last.get("content")
    if last.get("role") == "user" and isinstance(content, str):
        return [*rest[:-1], orjson.dumps(last | {"content": f"{content}\n\n{marked}"})]
    if last.get("role") == "user" and isinstance(content, list):
        parts = [*content, {"type": "text", "text": marked}]
        return [*rest[:-1], orjson.dumps(last | {"content": parts})]
    return [*rest, orjson.dumps({"role": "user", "content": marked})]


def _notice(dropped: set[int], moved: set[int]) -> str:
    words = "; left out a volatile system line" if dropped else ""
    if moved:
        words += f"; volatile lines of the system prompt moved to the end: {len(moved)}"
    return words
