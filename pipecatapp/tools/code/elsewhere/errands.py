"""Programs that are run elsewhere: what is given to them, and what came back, on the disk.

An errand has the id that follows from the call it belongs to, so that a run that is resumed finds
what was begun before.
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
"""How long an errand is kept that nobody asks for again."""
OVERHEAD: Final = 64 << 20
"""Bytes that a result may have beside the files: what was printed, and names."""


Work = Callable[["Offered"], Coroutine[Any, Any, None]]


class NoErrand(LookupError):
    """There is no errand of this id, or the token is not its own, or it has come back already."""


@dataclass(frozen=True)
class Offered:
    """One errand on the disk."""

    id: str
    place: Path
    errand: Errand

    @property
    def given(self) -> Path:
        """The bundle of the program and its folder."""
        return self.place / "given.tar"

    @property
    def said(self) -> Path:
        """The program alone, as data."""
        return self.place / "errand.json"

    @property
    def result(self) -> Path:
        """The bundle of what came of it; whole when it is there."""
        return self.place / "result.tar"

    @property
    def token(self) -> str:
        """What opens it to the one who carries it out, until the result is there."""
        return (self.place / "token").read_text(encoding="ascii")

    @property
    def room(self) -> int:
        """Bytes that the result may have."""
        return self.errand.limits.disk * 2 + OVERHEAD

    def came_back(self, bundle: Path) -> None:
        """Keep what came of it, and nothing of what was given: secrets may be among that."""
        bundle.rename(self.result)
        self.given.unlink(missing_ok=True)
        self.said.unlink(missing_ok=True)

    def note(self, name: str, text: str) -> None:
        """Keep a fact that a restart must not lose."""
        write_atomic(self.place / name, text)

    def noted(self, name: str) -> str | None:
        try:
            return (self.place / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    async def carried(
        self, carry: Work, end: Work, folder: Path, *, leaving: Callable[[], bool]
    ) -> Outcome:
        """What came of it, which `carry` waits for; where that fails, or nobody wants it any more,
        `end` is called. One that is left for the next start (`leaving`) goes on. Raises
        `ToolFailed`.
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
        """Bring the result into the folder of the run; raises `ToolFailed`."""
        try:
            with self.result.open("rb") as source:
                return unpack_outcome(source, folder, self.errand.limits)
        except SandboxUnusable as error:
            raise ToolFailed(str(error)) from error
        except (TooLarge, ValueError, OSError) as error:
            raise ToolFailed(f"What came back cannot be used: {error}.") from error


class Errands:
    """The errands below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def offer(self, call: str, errand: Errand, folder: Path) -> Offered:
        """The errand of a call, made now or found as it was left; `call` names the call."""
        said = json.dumps([call, errand.as_data()], sort_keys=True)
        id = hashlib.sha256(said.encode()).hexdigest()[:24]
        offered = Offered(id, self._root / id, errand)
        if not offered.place.is_dir():
            await asyncio.to_thread(self._make, offered, folder)
        return offered

    def drop(self, offered: Offered) -> None:
        """Forget it."""
        files.remove(offered.place)

    def find(self, id: str, token: str) -> Offered:
        """The errand that its carrier asks for; raises `NoErrand`."""
        place = self._root / id
        if not id.isalnum() or not place.is_dir():
            raise NoErrand(f"There is no errand {id!r}.")
        expected = (place / "token").read_text(encoding="ascii")
        if not hmac.compare_digest(expected.encode(), token.encode(errors="replace")):
            raise NoErrand(f"There is no errand {id!r}.")
        try:
            data = json.loads((place / "errand.json").read_bytes())
        except FileNotFoundError as error:
            raise NoErrand(f"The errand {id!r} has come back already.") from error
        return Offered(id, place, Errand.of(data))

    async def keep(self, offered: Offered, content: AsyncIterator[bytes]) -> None:
        """Take the result as it comes; raises `ToolFailed` for one that is too large."""
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
        """Aside first: what is there under its id is whole."""
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
            raise ToolFailed(f"The workspace cannot be given to a program: {error}.") from error
        finally:
            files.remove(aside)

    def _sweep(self) -> None:
        for place in self._root.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - place.stat().st_mtime > KEPT_SECONDS:
                    files.remove(place)
