"""Fetch a file over HTTP so that a broken connection, or a broken evening, loses nothing.

The bytes received so far are in `<file>.part`; `<file>.part.json` has the entity tag of the version
that they belong to. The rest is requested with `Range` and `If-Range` (RFC 9110, sections 13.1.5
and 14.2), so a file that changed at its source is downloaded again as a whole.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import httpx2
from pydantic import BaseModel, ValidationError

from hearth.models.catalogue import Model, SpeechFile, safe_url
from hearth.models.errors import SourceGone, SourceUnreachable
from hearth.models.progress import Progress

WAITS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each new try that follows one without a single new byte."""

TIMEOUT = httpx2.Timeout(30, connect=10)
TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class Interrupted(Exception):
    """The source cannot continue now, but may later."""


class Partial(BaseModel):
    """Which version of which file a `.part` file is the beginning of."""

    url: str
    etag: str


@dataclass(frozen=True)
class Download:
    """One file on its way from its address to its `.part` file."""

    url: str
    part: Path
    size: int | None = None
    waits: tuple[float, ...] = WAITS

    @classmethod
    def of(cls, file: Model | SpeechFile, url: str, folder: Path) -> Self:
        """The download of a model's file into its folder in the store."""
        return cls(url, folder / f"{file.file}.part", file.size_bytes)

    @property
    def kept(self) -> int:
        """How many bytes earlier tries have left that can be built on."""
        return self.part.stat().st_size if self._etag() and self.part.exists() else 0

    def run(self, progress: Progress, need_room: Callable[[int], None]) -> Path:
        """Download the complete file and return its path. The content is not verified here.

        Raises `SourceUnreachable` after several attempts without progress, `SourceGone` if the
        source refuses. `need_room` is called with the length as soon as it is known.
        """
        failures = 0
        hooks = {"request": [_refuse_unsafe]}
        with httpx2.Client(timeout=TIMEOUT, follow_redirects=True, event_hooks=hooks) as http:
            while True:
                before = self.kept
                try:
                    return self._transfer(http, progress, need_room)
                except httpx2.TooManyRedirects as error:
                    raise SourceGone(f"{self.url} leads in a circle.") from error
                except (httpx2.TransportError, Interrupted) as error:
                    failures = 0 if self.kept > before else failures + 1
                    if failures > len(self.waits):
                        host = urlsplit(self.url).hostname
                        raise SourceUnreachable(f"{host} cannot be reached: {error}.") from error
                    progress.step(f"trying again ({error})")
                    progress.pause(self.waits[max(0, failures - 1)] if self.waits else 0)

    def _transfer(
        self, http: httpx2.Client, progress: Progress, need_room: Callable[[int], None]
    ) -> Path:
        headers = {"Accept-Encoding": "identity"}
        if kept := self.kept:
            headers |= {"Range": f"bytes={kept}-", "If-Range": self._etag()}
        with http.stream("GET", self.url, headers=headers) as answer:
            if kept and answer.headers.get("content-range") == f"bytes */{kept}":
                return self.part  # nothing is left to ask for: status 416
            start = self._start(answer, kept)
            length = answer.headers.get("content-length")
            total = start + int(length) if length else None
            self._check_size(total)
            need_room((total or start) - start)
            progress.step("downloading")
            self._write(answer, start, total, progress)
        return self.part

    def _start(self, answer: httpx2.Response, kept: int) -> int:
        """The offset at which the answer's bytes belong; refusals become errors."""
        status = answer.status_code
        if status == 206 and answer.headers.get("content-range", "").startswith(f"bytes {kept}-"):
            return kept
        if status in TRY_AGAIN:
            raise Interrupted(f"HTTP {status}")
        if status in (206, 416):
            self._forget()  # it is not the beginning of what the source has
            raise Interrupted(f"HTTP {status}")
        if status == 200:
            self._forget()
            self._remember(answer.headers.get("etag", ""))
            return 0
        raise SourceGone(f"{self.url} answers with HTTP {status}.")

    def _check_size(self, total: int | None) -> None:
        if total is not None and self.size is not None and total != self.size:
            self._forget()
            raise SourceGone(f"{self.url} has {total} bytes; the catalogue expects {self.size}.")

    def _write(
        self, answer: httpx2.Response, start: int, total: int | None, progress: Progress
    ) -> None:
        done = start
        with self.part.open("ab") as file:
            for block in answer.iter_raw():
                file.write(block)
                done += len(block)
                progress.moved(done, total)

    def _etag(self) -> str:
        """The strong entity tag that a resumption may name, or nothing."""
        try:
            partial = Partial.model_validate_json(self._notes.read_bytes())
        except (FileNotFoundError, ValidationError):
            return ""
        return partial.etag if partial.url == self.url else ""

    def _remember(self, etag: str) -> None:
        if etag and not etag.startswith("W/"):
            notes = Partial(url=self.url, etag=etag).model_dump_json()
            self._notes.write_text(notes, encoding="utf-8")

    def _forget(self) -> None:
        self.part.unlink(missing_ok=True)
        self._notes.unlink(missing_ok=True)

    @property
    def _notes(self) -> Path:
        return self.part.with_name(f"{self.part.name}.json")


def _refuse_unsafe(request: httpx2.Request) -> None:
    """Called for each hop: a redirect must not lead out of https."""
    if not safe_url(str(request.url)):
        raise SourceGone(f"The source leads to {request.url}, which is not https.")
