"""Python packages for programs in the sandbox: fetched outside, unpacked inside, then read-only.

Only wheels are taken: what has to be built would run its author's program on the host. The network
is used by pip alone, before; the environment is made in the sandbox, from the wheels.
"""

import asyncio
import hashlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Final

from hearth.files import write_atomic
from pipecatapp.sandbox import Limits, Mount, Outcome, Sandbox, SandboxUnusable
from pipecatapp.sandbox import tree as files
from pipecatapp.sandbox.bubblewrap import python
from pipecatapp.tools.code.errors import ProgramError, error_of
from pipecatapp.workflow import ToolFailed

VERSION: Final = r" ?(===?|>=|<=|~=|!=|<|>) ?[A-Za-z0-9.*+!_-]+"
REQUIREMENT: Final = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9._, -]+\])?"
    rf"({VERSION}(,{VERSION})*)?"
)
"""A name and versions, as in PEP 508; no address, no path, no option of pip."""
OTHERS: Final = re.compile(r"(?:sudo )?(npm|npx|yarn|pnpm|apt|apt-get)[ :].*")
"""Packages of npm or of the system, as models write them."""
UNREACHABLE: Final = "after connection broken by "
"""pip's message if the index does not answer; other requirements would fail as well."""
LOCK: Final = "requirements.lock"
ID: Final = re.compile(r"[0-9a-f]{24}")
FETCH_SECONDS: Final = 600.0
UNUSED_SECONDS: Final = 90 * 86400.0
"""An environment that no program has had for so long is removed when the next one is made."""
MIB: Final = 1 << 20
ROOM: Final = Limits(
    seconds=900, memory=2048 * MIB, disk=8192 * MIB, file=4096 * MIB, files=400_000
)
INSTALL: Final = """
set -e
{python} -m venv --without-pip {place}
PYTHONPATH=/pip {place}/bin/python -m pip --no-cache-dir --disable-pip-version-check --no-input \
    install --quiet --no-index --no-deps --no-compile /wheels/*.whl
"""


class FetchFailed(ToolFailed):
    """pip cannot find these packages, or not together. `error` is read from its output.

    Ask for other packages or versions.
    """

    def __init__(self, lines: Sequence[str], error: ProgramError) -> None:
        super().__init__(f"pip cannot fetch {', '.join(lines)}: {error.message}")
        self.error = error


@dataclass(frozen=True)
class Installed:
    """An environment: its id, and what is in it as `name==version`."""

    id: str
    packages: list[str]


class Packages:
    """The environments below `root`.

    With `wheels` the packages come from that folder, and no network is used. `needed` gives the ids
    of those that unfinished runs count on.
    """

    def __init__(
        self,
        root: Path,
        sandbox: Sandbox,
        *,
        wheels: Path | None = None,
        needed: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._root, self._sandbox, self._wheels = root, sandbox, wheels
        self._needed = needed
        self._one = asyncio.Lock()

    def place(self, id: str) -> Path:
        """The environment of that id; raises `ToolFailed`."""
        place = self._root / id
        if not ID.fullmatch(id) or not (place / "bin").is_dir():
            raise ToolFailed(f"There are no packages {id!r} here: code.install makes them.")
        os.utime(place)
        return place

    def lock(self, installed: Installed) -> str:
        """Return the lock file of an environment: a requirements file for pip, with hashes.

        An environment of an older version of Hearth has the versions only.
        """
        file = self._root / installed.id / LOCK
        if file.exists():
            return file.read_text(encoding="utf-8")
        return "".join(f"{line}\n" for line in installed.packages)

    async def install(self, wanted: Sequence[str]) -> Installed:
        """Make the environment with these packages and what they need, or find it made.

        Raises `FetchFailed` with the error of pip, and `ToolFailed` if other packages would not
        help.
        """
        lines = sorted({line.strip() for line in wanted})
        for line in lines:
            _check(line)
        async with self._one:
            asked = self._root / "asked" / f"{_digest(*lines, platform.python_version())}.json"
            pinned = all("==" in line and "*" not in line for line in lines)
            if pinned and asked.exists():
                found = Installed(**json.loads(asked.read_bytes()))
                if (self._root / found.id / "bin").is_dir():
                    os.utime(self._root / found.id)
                    return found
            await asyncio.to_thread(self.sweep)
            made = await self._make(lines)
            # Half of it would keep these packages from ever being found again.
            write_atomic(asked, json.dumps({"id": made.id, "packages": made.packages}))
            return made

    def sweep(self) -> None:
        """Remove what nobody uses any more, and what a process that was killed had begun."""
        needed, oldest = self._needed(), time.time() - UNUSED_SECONDS
        for place in self._root.glob("*"):
            unused = ID.fullmatch(place.name) and place.name not in needed
            if place.name.startswith(".") or (unused and place.stat().st_mtime < oldest):
                files.remove(place)
        for asked in self._root.glob("asked/*.json"):
            if not (self._root / json.loads(asked.read_bytes())["id"]).is_dir():
                asked.unlink()

    async def _make(self, lines: list[str]) -> Installed:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = self._root / f".{token_hex(8)}"
        wheels, build = aside / "wheels", aside / "build"
        for folder in (wheels, build):
            folder.mkdir(parents=True)
        try:
            await self._fetch(lines, wheels)
            names = sorted(file.name for file in wheels.glob("*.whl"))
            id = _digest(platform.python_version(), sys.base_prefix, *map(_sum, _all(wheels)))
            if not (self._root / id / "bin").is_dir():
                await self._unpack(build, wheels, self._root / id)
                (build / LOCK).write_text(_locked(wheels), encoding="utf-8")
                build.rename(self._root / id)
            os.utime(self._root / id)
            return Installed(id, ["==".join(name.split("-")[:2]) for name in names])
        finally:
            await asyncio.to_thread(files.remove, aside)

    async def _fetch(self, lines: list[str], wheels: Path) -> None:
        """pip honours the mirrors and proxies that the person has set up for it (decision 0011)."""
        wanted = wheels.parent / "requirements.txt"
        wanted.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
        words = [sys.executable, "-I", "-m", "pip", "download", "--only-binary=:all:"]
        words += ["--disable-pip-version-check", "--no-input", "--retries=2", "--progress-bar=off"]
        words += ["--dest", str(wheels), "--requirement", str(wanted)]
        if self._wheels is not None:
            words += ["--no-index", "--find-links", str(self._wheels)]
        pip = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=wheels,
            start_new_session=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                streams = await pip.communicate()
        except BaseException:
            if pip.returncode is None:
                pip.kill()
                await pip.wait()
            raise
        if pip.returncode:
            stdout, stderr = (
                text.decode(errors="replace").replace(f"{wanted.parent}/", "") for text in streams
            )
            error = error_of(stderr, stdout=stdout, exit_code=pip.returncode, stopped=None)
            if error is None or UNREACHABLE in stderr:
                raise ToolFailed(f"pip cannot fetch {', '.join(lines)}: {_reason(stderr)}")
            raise FetchFailed(lines, error)

    async def _unpack(self, build: Path, wheels: Path, place: Path) -> None:
        """In the sandbox, at the path that it will have."""
        mounts = [
            Mount(wheels, "/wheels"),
            Mount(_pip(), "/pip/pip"),
            Mount(build, str(place), writable=True),
        ]
        script = INSTALL.format(python=python(), place=place)
        try:
            ended = await self._sandbox.run(["/bin/sh", "-c", script], build, limits=ROOM,
                                            mounts=mounts)  # fmt: skip
        except SandboxUnusable as error:
            raise ToolFailed(str(error)) from error
        if ended.exit_code != 0:
            raise ToolFailed(f"The packages cannot be unpacked: {_why(ended)}")


def _check(line: str) -> None:
    """Raise `ToolFailed` for a line that names no Python package."""
    if OTHERS.fullmatch(line):
        raise ToolFailed(f"{line!r} is refused, because code.install gets Python packages only.")
    if not REQUIREMENT.fullmatch(line):
        raise ToolFailed(
            f"{line!r} is not a valid package: write one such as requests or requests==2.32.5."
        )


def _locked(wheels: Path) -> str:
    """Return each wheel with its version and its hash, as pip reads them."""
    lines = []
    for file in _all(wheels):
        name, version, _ = file.name.split("-", 2)
        lines.append(f"{name}=={version} --hash=sha256:{_sha256(file)}\n")
    return "".join(lines)


def _why(ended: Outcome) -> str:
    return f"stopped by its limit of {ended.stopped}" if ended.stopped else _reason(
        ended.stderr.text
    )  # fmt: skip


def _reason(said: str) -> str:
    """pip's own last word of an error."""
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["it gives no reason."])[-1]


def _pip() -> Path:
    """The folder of the pip that came with Hearth."""
    found = find_spec("pip")
    if found is None or found.origin is None:
        raise ToolFailed("pip is missing in Hearth's own environment.")
    return Path(found.origin).parent


def _all(wheels: Path) -> list[Path]:
    return sorted(wheels.glob("*.whl"))


def _sum(file: Path) -> str:
    return f"{file.name} {_sha256(file)}"


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
