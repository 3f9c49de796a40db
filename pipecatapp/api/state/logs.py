"""`/api/logs`: what the services of this instance wrote, for the page that shows it.

The files are those of `hearth up`, a line each with its moment. On a cluster Nomad keeps the logs.
"""

import asyncio
import re
from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from typing import Annotated, Final

from fastapi import Depends, Query, Request
from pydantic import BaseModel

from hearth.service.state import StateDir
from pipecatapp.api.access import known_caller
from pipecatapp.api.routing import api_router

router = api_router("/api/logs", dependencies=[Depends(known_caller)])

TAIL: Final = 256 * 1024
"""Bytes of each file that are looked at: a page shows what happens, not what happened last year."""

MOST: Final = 1000
LINE: Final = re.compile(r"(\d{4}-\d\d-\d\dT[\d:.]+Z) (.*)", re.DOTALL)
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


class Line(BaseModel):
    """One line; `moment` is UTC, and sorts as text."""

    moment: str
    service: str
    text: str


class Lines(BaseModel):
    """In the order in which they were written. `services` are those that have a log at all."""

    services: list[str]
    lines: list[Line]


@router.get("")
async def show_logs(request: Request, after: Annotated[str, Query(max_length=40)] = "") -> Lines:
    """The last lines that were written after that moment."""
    state: StateDir = request.app.state.directory
    return await asyncio.to_thread(newest, state.logs, after)


def newest(folder: Path, after: str) -> Lines:
    """At most `MOST` lines of all files together."""
    files = sorted(folder.glob("*.log"))
    together = merge(*(_lines(file, after) for file in files), key=lambda line: line.moment)
    return Lines(services=[file.stem for file in files], lines=[*together][-MOST:])


def _lines(file: Path, after: str) -> Iterator[Line]:
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - TAIL))
        whole, _, _ = stream.read().rpartition(b"\n")
    for line in whole.decode(errors="replace").split("\n"):
        found = LINE.fullmatch(COLOUR.sub("", line))
        if found is not None and found[1] > after:
            yield Line(moment=found[1], service=file.stem, text=found[2])
