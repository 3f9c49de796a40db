"""Live text and events of a run, in memory, to any number of listeners.

Nothing here ever waits for a listener.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pipecatapp.workflow.ledger.event import Event


class Delta(BaseModel):
    """A piece of streamed text. `offset` is the number of characters of this instance before it."""

    model_config = ConfigDict(frozen=True)

    type: Literal["delta"] = "delta"
    run: str
    path: str
    text: str
    offset: int = 0


class _Words:
    """Text that waits for a slow listener: pieces of one instance, joined when they are taken."""

    def __init__(self, run: str, path: str, offset: int) -> None:
        self.run, self.path, self.offset = run, path, offset
        self.pieces: list[str] = []

    def delta(self) -> Delta:
        return Delta(run=self.run, path=self.path, text="".join(self.pieces), offset=self.offset)


class Listener:
    """Receives the events and text of one run. Create it, pass it to `Engine.start`, and iterate:
    no event and no text is missed.

    Unread text of one instance between two events is merged into one delta, so the queue is limited
    by the run's events plus its text.
    """

    def __init__(self) -> None:
        self._waiting: list[Event | _Words] = []
        self._open_words: dict[str, _Words] = {}
        self._ended = False
        self._news = asyncio.Event()

    def heard(self, event: Event) -> None:
        """Add an event; later text follows it."""
        self._open_words.clear()
        self._waiting.append(event)
        self._news.set()

    def said(self, run: str, path: str, text: str, offset: int) -> None:
        """Take a piece of text."""
        words = self._open_words.get(path)
        if words is None:
            words = self._open_words[path] = _Words(run, path, offset)
            self._waiting.append(words)
        words.pieces.append(text)
        self._news.set()

    def end(self) -> None:
        """End the iteration after the queued items."""
        self._ended = True
        self._news.set()

    async def __aiter__(self) -> AsyncIterator[Delta | Event]:
        while True:
            await self._news.wait()
            taken, self._waiting = self._waiting, []
            self._open_words.clear()
            if not self._ended:
                self._news.clear()
            for item in taken:
                yield item.delta() if isinstance(item, _Words) else item
            if self._ended and not self._waiting:
                return


class Channel:
    """The output of one active run, and its listeners."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._listeners: set[Listener] = set()
        self._said: dict[str, list[str]] = {}
        self._length: dict[str, int] = {}
        self._ended = False

    def join(self, listener: Listener) -> None:
        """Add a listener; it first receives the text of active instances so far."""
        for path, pieces in self._said.items():
            listener.said(self.run, path, "".join(pieces), 0)
        if self._ended:
            listener.end()
        self._listeners.add(listener)

    def leave(self, listener: Listener) -> None:
        """Remove a listener."""
        self._listeners.discard(listener)

    def say(self, path: str, text: str) -> None:
        """Send text of the instance at `path` to all listeners."""
        if not text:
            return
        offset = self._length.get(path, 0)
        self._said.setdefault(path, []).append(text)
        self._length[path] = offset + len(text)
        for listener in self._listeners:
            listener.said(self.run, path, text, offset)

    @property
    def text(self) -> str:
        """All text so far, of one instance after the other."""
        return "".join(piece for pieces in self._said.values() for piece in pieces)

    def publish(self, event: Event) -> None:
        """Send an event that is in the ledger to all listeners."""
        for listener in self._listeners:
            listener.heard(event)

    def close(self) -> None:
        """The run has ended."""
        self._ended = True
        for listener in self._listeners:
            listener.end()
