"""One connection of the Wyoming protocol: JSON lines, each followed by data and audio.

The format is that of https://github.com/OHF-Voice/wyoming (README, "Format").
"""

import asyncio
import json
from typing import Any, Final

from wyoming.event import Event, Eventable, async_write_event

from pipecatapp.voice.talk import CallerLeft

LARGEST_DATA: Final = 1 << 18
LARGEST_PAYLOAD: Final = 1 << 20
"""Maximum bytes of one event. Audio arrives in chunks of some kilobytes."""

UNREADABLE: Final = (
    OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError
)  # fmt: skip
"""Errors of a broken connection, and of bytes that are not an event."""


class Wire:
    """Reads and writes events; the package's own reader accepts payloads of any announced size."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @property
    def peer(self) -> str:
        """The address of the other side."""
        return str((self._writer.get_extra_info("peername") or ("",))[0])

    async def read(self) -> Event:
        """Return the next event. Raises `CallerLeft` at the end, and for invalid data."""
        try:
            line = await self._reader.readline()
            if not line:
                raise CallerLeft
            head = json.loads(line)
            data: dict[str, Any] = dict(head.get("data") or {})
            more = await self._exactly(head.get("data_length"), LARGEST_DATA)
            if more:
                data |= json.loads(more)
            payload = await self._exactly(head.get("payload_length"), LARGEST_PAYLOAD)
            return Event(type=str(head["type"]), data=data, payload=payload or None)
        except UNREADABLE as error:
            raise CallerLeft from error

    async def _exactly(self, length: int | None, most: int) -> bytes:
        if not length:
            return b""
        if not 0 < length <= most:
            raise ValueError("an event that is too large")
        return await self._reader.readexactly(length)

    async def write(self, event: Eventable) -> None:
        """Raises `CallerLeft`."""
        try:
            await async_write_event(event.event(), self._writer)
        except OSError as error:
            raise CallerLeft from error

    async def close(self) -> None:
        """Close the connection in both directions."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return  # the other side was quicker
