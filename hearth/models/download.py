"""Download a file over HTTP, and resume the download after an interruption.

`<file>.part` contains the bytes received so far, and `<file>.part.json` the entity tag of their
version. The rest is requested with `Range` and `If-Range` (RFC 9110, sections 13.1.5 and 14.2), so
a file that changed at its source is downloaded again from the start.
"""

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2
from pydantic import BaseModel, ValidationError

from hearth.models.catalogue import Model, SpeechFile, safe_url
from hearth.models.errors import SourceGone, SourceUnreachable
from hearth.models.progress import Progress

WAITS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each retry that follows an attempt without any new byte."""

TIMEOUT = httpx2.Timeout(30, connect=10)
TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class Interrupted(Exception):
    """The source cannot continue now, but may later."""


class Partial(BaseModel):
    """The URL and version to which the bytes of a `.part` file belong."""

    url: str
    etag: str


@dataclass(frozen=True)
class Download:
    """The download of one file to its `.part` file."""

    url: str
    part: Path
    size: int | None = None
    waits: tuple[float, ...] = WAITS

    @classmethod
    def of(cls, file: Model | SpeechFile, url: str, folder: Path) -> Self:
        """Return the download of a model's file to its folder in the store."""
        return cls(url, folder / f"{file.file}.part", file.size_bytes)

    @property
    def kept(self) -> int:
        """The number of bytes of earlier attempts that can be reused."""
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
                    raise SourceGone(f"{self.url} has a redirect loop.") from error
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
        trace = {"trace": partial(_offer_end, progress)}
        with http.stream("GET", self.url, headers=headers, extensions=trace) as response:
            if kept and response.headers.get("content-range") == f"bytes */{kept}":
                return self.part  # status 416: the file is complete
            start = self._start(response, kept)
            length = response.headers.get("content-length")
            total = start + int(length) if length else None
            self._check_size(total)
            need_room((total or start) - start)
            progress.step("downloading")
            self._write(response, start, total, progress)
        return self.part

    def _start(self, response: httpx2.Response, kept: int) -> int:
        """Return the offset of the response's bytes in the file.

        Raises `Interrupted` if a retry may succeed, otherwise `SourceGone`.
        """
        status = response.status_code
        if status == 206 and response.headers.get("content-range", "").startswith(f"bytes {kept}-"):
            return kept
        if status in TRY_AGAIN:
            raise Interrupted(f"HTTP {status}")
        if status in (206, 416):
            self._forget()  # the bytes belong to another version of the file
            raise Interrupted(f"HTTP {status}")
        if status == 200:
            self._forget()
            self._remember(response.headers.get("etag", ""))
            return 0
        raise SourceGone(f"{self.url} responds with HTTP {status}.")

    def _check_size(self, total: int | None) -> None:
        if total is not None and self.size is not None and total != self.size:
            self._forget()
            raise SourceGone(f"{self.url} has {total} bytes; the catalogue expects {self.size}.")

    def _write(
        self, response: httpx2.Response, start: int, total: int | None, progress: Progress
    ) -> None:
        done = start
        with self.part.open("ab") as file:
            for block in response.iter_raw():
                file.write(block)
                done += len(block)
                progress.moved(done, total)

    def _etag(self) -> str:
        """Return the strong entity tag with which the download can resume, or an empty string."""
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


def _offer_end(progress: Progress, event: str, info: Mapping[str, Any]) -> None:
    """Tell the progress how to end the connection that was made; called for each event of it."""
    if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
        connection = info["return_value"].get_extra_info("socket")
        progress.reading(lambda: _end(connection))


def _end(connection: socket.socket) -> None:
    """End the connection, which makes a read that blocks in another thread fail at once.

    The method of the base class leaves the state of TLS alone, which the reading thread uses.
    """
    with suppress(OSError):  # it has ended already
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _refuse_unsafe(request: httpx2.Request) -> None:
    """Raise `SourceGone` for a redirect to a URL that is not https; called before each request."""
    if not safe_url(str(request.url)):
        raise SourceGone(f"The source redirects to {request.url}, which is not https.")
