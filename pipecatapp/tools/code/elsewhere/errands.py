"""Remote jobs on the disk: programs that other machines execute, their inputs and results.

The id of a job is derived from its call, so a resumed run finds the job that it has started.
"""

import asyncio
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex, token_urlsafe
from typing import Any, Final

from hearth.files import write_atomic
from pipecatapp.sandbox import Outcome, SandboxUnusable, bundle
from pipecatapp.sandbox import tree as files
from pipecatapp.sandbox.errand import Errand, unpack_outcome
from pipecatapp.sandbox.tree import TooLarge
from pipecatapp.workflow import ToolFailed

KEPT_SECONDS: Final = 7 * 24 * 3600.0
"""Seconds after which an unused job is removed."""
OVERHEAD: Final = 64 << 20
"""Bytes of a result in addition to the files: the output, and file names."""


Work = Callable[["Offered"], Coroutine[Any, Any, None]]


class NoErrand(LookupError):
    """There is no job with this id and token, or its result has already arrived."""


@dataclass(frozen=True)
class Offered:
    """A job on the disk."""

    id: str
    place: Path
    errand: Errand

    @property
    def given(self) -> Path:
        """The archive with the program and its folder."""
        return self.place / "given.tar"

    @property
    def said(self) -> Path:
        """The description of the program, without its folder."""
        return self.place / "errand.json"

    @property
    def result(self) -> Path:
        """The archive with the result; it exists only when it is complete."""
        return self.place / "result.tar"

    @property
    def token(self) -> str:
        """The token with which a worker gets the job and sends the result."""
        return (self.place / "token").read_text(encoding="ascii")

    @property
    def room(self) -> int:
        """Maximum size of the result in bytes."""
        return self.errand.limits.disk * 2 + OVERHEAD

    def came_back(self, bundle: Path) -> None:
        """Store the result and delete the inputs, which may contain secrets."""
        bundle.rename(self.result)
        self.given.unlink(missing_ok=True)
        self.said.unlink(missing_ok=True)

    def note(self, name: str, text: str) -> None:
        """Store a value that must survive a restart."""
        write_atomic(self.place / name, text)

    def noted(self, name: str) -> str | None:
        """Return a stored value, or None."""
        try:
            return (self.place / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    async def carried(
        self, carry: Work, end: Work, folder: Path, *, leaving: Callable[[], bool]
    ) -> Outcome:
        """Wait for the result and unpack it to `folder`.

        Args:
            carry: Starts the job, if necessary, and waits for its result.
            end: Stops the job; called if it fails or its call is cancelled.
            folder: The folder of the run.
            leaving: Whether the service is stopping; then a cancelled job continues.

        Raises:
            ToolFailed: The job failed, or its result is not valid.
        """
        try:
            if not self.result.exists():
                await carry(self)
            return await asyncio.to_thread(self.take, folder)
        except ToolFailed:
            await end(self)
            raise
        except asyncio.CancelledError:
            if not leaving():
                await asyncio.shield(end(self))
            raise

    def take(self, folder: Path) -> Outcome:
        """Unpack the result to the folder of the run; raises `ToolFailed`."""
        try:
            with self.result.open("rb") as source:
                return unpack_outcome(source, folder, self.errand.limits)
        except SandboxUnusable as error:
            raise ToolFailed(str(error)) from error
        except (TooLarge, ValueError, OSError) as error:
            raise ToolFailed(f"The result of the remote job cannot be used: {error}.") from error


class Errands:
    """The jobs below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def offer(self, call: str, errand: Errand, folder: Path) -> Offered:
        """Return the job of the call `call`; create it if it does not exist."""
        content = json.dumps([call, errand.as_data()], sort_keys=True)
        id = hashlib.sha256(content.encode()).hexdigest()[:24]
        offered = Offered(id, self._root / id, errand)
        if not offered.place.is_dir():
            await asyncio.to_thread(self._make, offered, folder)
        return offered

    def drop(self, offered: Offered) -> None:
        """Delete a job."""
        files.remove(offered.place)

    def find(self, id: str, token: str) -> Offered:
        """Return the job for which a worker asks; raises `NoErrand`."""
        place = self._root / id
        if not id.isalnum() or not place.is_dir():
            raise NoErrand(f"There is no remote job {id!r}.")
        expected = (place / "token").read_text(encoding="ascii")
        if not hmac.compare_digest(expected.encode(), token.encode(errors="replace")):
            raise NoErrand(f"There is no remote job {id!r}.")
        try:
            data = json.loads((place / "errand.json").read_bytes())
        except FileNotFoundError as error:
            raise NoErrand(f"The remote job {id!r} already has a result.") from error
        return Offered(id, place, Errand.of(data))

    async def keep(self, offered: Offered, content: AsyncIterator[bytes]) -> None:
        """Store a result while it is received; raises `ToolFailed` if it is too large."""
        part, size = offered.place / f".result-{token_hex(4)}", 0
        try:
            with part.open("wb") as target:
                async for data in content:
                    size += len(data)
                    if size > offered.room:
                        raise ToolFailed(f"The result has more than {offered.room} bytes.")
                    await asyncio.to_thread(target.write, data)
            await asyncio.to_thread(offered.came_back, part)
        finally:
            part.unlink(missing_ok=True)

    def _make(self, offered: Offered, folder: Path) -> None:
        """Write the job to a hidden folder and rename it, so that its folder is always complete."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sweep()
        aside = self._root / f".{offered.id}-{token_hex(4)}"
        aside.mkdir(mode=0o700)
        try:
            data = offered.errand.as_data()
            (aside / "errand.json").write_text(json.dumps(data), encoding="ascii")
            (aside / "token").write_text(token_urlsafe(32), encoding="ascii")
            with (aside / "given.tar").open("wb") as target:
                bundle.pack(target, data, folder)
            aside.rename(offered.place)
        except TooLarge as error:
            raise ToolFailed(f"The workspace cannot be sent to a remote job: {error}.") from error
        finally:
            files.remove(aside)

    def _sweep(self) -> None:
        for place in self._root.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - place.stat().st_mtime > KEPT_SECONDS:
                    files.remove(place)
