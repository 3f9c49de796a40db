"""What a service writes, line by line."""

import asyncio
import os
import threading

from hearth.local.process.child import LONGEST_LINE, read_lines


async def read(text: bytes) -> list[str]:
    reading, writing = os.pipe()
    lines: list[str] = []

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(text)

    writer = threading.Thread(target=write)
    writer.start()
    await read_lines(reading, lines.append)
    await asyncio.to_thread(writer.join)
    return lines


async def test_lines_come_whole_and_the_last_one_needs_no_end() -> None:
    """The last words of a service that crashes are the ones that matter."""
    assert await read("one\r\nzwölf\nlast".encode()) == ["one", "zwölf", "last"]


async def test_text_without_a_line_end_is_given_in_parts() -> None:
    """A progress bar that draws over itself for a week must not fill the supervisor's memory."""
    text = b"x" * (3 * LONGEST_LINE)

    lines = await read(text)

    assert "".join(lines).encode() == text
    assert max(map(len, lines)) < 2 * LONGEST_LINE
    assert len(lines) > 1
