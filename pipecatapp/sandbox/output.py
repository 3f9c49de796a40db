"""The output of a program, truncated in the middle."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

HIDDEN: Final = "***"
"""Replaces a printed secret."""


@dataclass(frozen=True)
class Text:
    """The stored part of one stream; `cut` bytes are missing between its two halves."""

    text: str
    cut: int = 0

    def without(self, secrets: Iterable[str]) -> "Text":
        """The same with `***` for each of these, also for what the cut has left of one."""
        gap = _gap(self.cut) if self.cut else "\0"
        head, gap, tail = self.text.partition(gap)
        for secret in sorted(secrets, key=len, reverse=True):
            head, tail = head.replace(secret, HIDDEN), tail.replace(secret, HIDDEN)
            for size in range(len(secret) - 1, 0, -1) if gap else ():
                if head.endswith(secret[:size]):
                    head = head[:-size] + HIDDEN
                if tail.startswith(secret[-size:]):
                    tail = HIDDEN + tail[size:]
        return Text(f"{head}{gap}{tail}", self.cut)


def _gap(cut: int) -> str:
    return f"\n[… {cut} bytes cut …]\n"


class Stream:
    """Stores the first half of `kept` bytes and the latest ones, and counts the rest."""

    def __init__(self, kept: int) -> None:
        self._head_room = kept // 2
        self._tail_room = kept - self._head_room
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.size = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.size += len(data)
        room = self._head_room - len(self._head)
        self._head += data[:room]
        if rest := data[room:]:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_room:
            self._tail_size -= len(self._tail.popleft())

    def text(self) -> Text:
        """Return the complete text if it fits; otherwise beginning, a line with the omitted
        size, and end."""
        tail = b"".join(self._tail)[-self._tail_room :] if self._tail else b""
        cut = self.size - len(self._head) - len(tail)
        if not cut:
            return Text((self._head + tail).decode(errors="replace"))
        head = self._head.decode(errors="replace")
        return Text(f"{head}{_gap(cut)}{tail.decode(errors='replace')}", cut)
