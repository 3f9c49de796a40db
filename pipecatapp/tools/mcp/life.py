"""One connection to an MCP server, from its start to its end, for each kind of transport."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

MAX_MESSAGE: Final = 4 * 1024 * 1024
"""Bytes of one message; a server that sends more does not work as intended."""

Streams = tuple[Any, Any]
"""The streams that the SDK reads and writes; their classes are private in the SDK."""


@dataclass
class Life:
    """One process of a server, or one connection over HTTP, from its start to its end."""

    pid: int = 0
    """0 for a server over HTTP."""
    heard: float = 0.0
    """Time of its last output, on the monotonic clock."""
    refused: int = 0
    """The HTTP status of its last response if that was an error, otherwise 0."""
    stderr: bytes = b""
    why: str = ""
    """Why it ended; empty while it runs, and if it was stopped on purpose."""
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Its stdout is closed, or a stop was requested."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """The process, or the connection, has ended."""

    def end(self, why: str) -> None:
        """Let its keeper end it, for this reason."""
        self.why = self.why or why
        self.ending.set()

    def last_words(self) -> str:
        """The last line it wrote to its stderr."""
        lines = self.stderr.decode(errors="replace").strip().splitlines()
        return f": {lines[-1][:300]}" if lines else ""
