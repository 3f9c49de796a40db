"""Run one of the programs in `jobs` in the sandbox.

A document may be hostile, and its parsers are large. So no document is opened in this process: a
program without a network reads a copy of it in an empty folder, with limits of time, memory and
disk, and leaves `result.json` there. That result is untrusted, too: it is validated, and files are
opened without following links.
"""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from pipecatapp.sandbox import Limits, Mount, Outcome, Sandbox, SandboxUnusable
from pipecatapp.sandbox.bubblewrap import python
from pipecatapp.sandbox.ceiling import Ceiling
from pipecatapp.sandbox.leftovers import guard
from pipecatapp.sandbox.tree import NotPlain, TooLarge, open_plain, remove
from pipecatapp.tools.files.place import inside
from pipecatapp.workflow import Context, Package, Program, ToolFailed

EXTRA: Final = "documents"
BUBBLEWRAP: Final = Program("bwrap", apt="bubblewrap")
PANDOC: Final = Package("pypandoc", extra=EXTRA)
TYPST: Final = Package("typst", extra=EXTRA)
PDFIUM: Final = Package("pypdfium2", extra=EXTRA)
PDFPLUMBER: Final = Package("pdfplumber", extra=EXTRA)
OPENPYXL: Final = Package("openpyxl", extra=EXTRA)

DISTRIBUTIONS: Final = (
    "cffi", "charset-normalizer", "cryptography", "et-xmlfile", "openpyxl", "pdfminer-six",
    "pdfplumber", "pillow", "pypandoc-binary", "pypdfium2", "typst",
)  # fmt: skip
"""The packages that the programs import, with those that they need."""
MIB: Final = 1 << 20
LARGEST: Final = 64 * MIB
"""Bytes of a document, at most."""
LARGEST_RESULT: Final = 32 * MIB
LIMITS: Final = Limits(
    seconds=120, cpu=240, memory=1024 * MIB, processes=64, disk=512 * MIB, file=256 * MIB
)
CODE: Final = "/code"
SOURCE: Final = "/source"
"""The workspace in the sandbox, read-only, if a program needs it."""
STOPPED: Final[Mapping[str, str]] = {
    "time": "it takes more than {seconds:g} seconds",
    "cpu": "it takes more than {seconds:g} seconds",
    "memory": "it needs more than {memory} MiB of memory",
    "disk": "it needs more than {disk} MiB of disk space",
    "processes": "it needs more than {processes} processes",
    "output": "it prints too much",
    "cancelled": "it was cancelled",
}
"""Why a program was stopped, as the end of a sentence."""

Result = TypeVar("Result", bound=BaseModel)


@dataclass(frozen=True)
class Job:
    """One program to run.

    Attributes:
        name: A key of `jobs.main.JOBS`.
        given: The program's arguments, as JSON.
        failure: The beginning of a sentence, such as "'a.pdf' cannot be read".
        files: Name in the program's folder → path in the workspace.
        texts: Name in the program's folder → its content.
        sees_workspace: Whether the program can read the whole workspace.
    """

    name: str
    given: Mapping[str, Any]
    failure: str
    files: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    sees_workspace: bool = False


@dataclass(frozen=True)
class Finished(Generic[Result]):
    """The result of a program, and its folder until the end of the context."""

    result: Result
    folder: Path

    def content(self, name: str, largest: int) -> bytes:
        """Return a file that the program wrote. Raises `ToolFailed` for one that is missing or has
        more than `largest` bytes."""
        try:
            with os.fdopen(open_plain(self.folder, name), "rb") as stream:
                data = stream.read(largest + 1)
        except OSError as error:
            raise ToolFailed(f"The file was not written: {error.strerror or error}.") from error
        if len(data) > largest:
            raise ToolFailed(f"The file would have more than {largest // MIB} MiB.")
        return data


@asynccontextmanager
async def finished(
    ctx: Context, root: Path, job: Job, kind: type[Result]
) -> AsyncIterator[Finished[Result]]:
    """Run a program, and yield its validated result and its folder.

    Raises `ToolFailed` with the program's sentence, or with the limit that stopped it.
    """
    guard.watch()
    folder = Path(tempfile.mkdtemp(prefix=f"{guard.mark}-document-"))
    try:
        await asyncio.to_thread(_prepare, root, folder, job)
        limits = _limits(ctx)
        outcome = await _run(ctx, root, folder, job, limits)
        said = await asyncio.to_thread(_result, folder, job, outcome, limits)
        try:
            result = kind.model_validate(said)
        except ValidationError as error:
            raise ToolFailed(f"{job.failure}: the parser gave no valid result.") from error
        yield Finished(result, folder)
    finally:
        await asyncio.to_thread(remove, folder)


def _prepare(root: Path, folder: Path, job: Job) -> None:
    for name, path in job.files.items():
        copy(root, path, folder / name, job.failure)
    for name, text in job.texts.items():
        (folder / name).write_text(text, encoding="utf-8", errors="replace")
    order = json.dumps({"job": job.name, "given": dict(job.given)})
    (folder / "job.json").write_text(order, encoding="utf-8")


def copy(root: Path, path: str, target: Path, failure: str) -> None:
    """Copy a file of the workspace; raises `ToolFailed` with the reason if it cannot be read."""
    place = inside(root, path)
    try:
        with os.fdopen(open_plain(root, place), "rb") as stream, target.open("wb") as copied:
            _copy_checked(stream, copied, failure)
    except FileNotFoundError:
        raise ToolFailed(f"{failure}: there is no such file in the workspace.") from None
    except NotPlain as error:
        raise ToolFailed(f"{failure}: {error}.") from error
    except OSError as error:
        raise ToolFailed(f"{failure}: {error.strerror}.") from error


def _copy_checked(stream: BinaryIO, copied: BinaryIO, failure: str) -> None:
    size = os.fstat(stream.fileno()).st_size
    if size > LARGEST:
        raise ToolFailed(
            f"{failure}: it has {size // MIB} MiB, and at most {LARGEST // MIB} MiB are read."
            " Split it into parts."
        )
    if size == 0:
        raise ToolFailed(f"{failure}: the file is empty.")
    shutil.copyfileobj(stream, copied, MIB)


def _limits(ctx: Context) -> Limits:
    """The limits of a program, lowered to the ceiling of this instance."""
    service = ctx.services.get(Ceiling)
    if not isinstance(service, Ceiling):
        return LIMITS
    return replace(
        LIMITS,
        seconds=min(LIMITS.seconds, service.seconds),
        memory=min(LIMITS.memory, service.memory_mb * MIB),
        processes=min(LIMITS.processes, service.processes),
        disk=min(LIMITS.disk, service.disk_mb * MIB),
    )


async def _run(ctx: Context, root: Path, folder: Path, job: Job, limits: Limits) -> Outcome:
    mounts = [*_packages(), Mount(Path(__file__).parent / "jobs", f"{CODE}/{_JOBS}")]
    if job.sees_workspace:
        mounts.append(Mount(root, SOURCE))
    # `-P`: a file in the folder with the name of a module must not be imported.
    command = [python(), "-P", "-S", "-m", "pipecatapp.tools.documents.jobs.main"]
    try:
        return await ctx.service(Sandbox).run(
            command, folder, limits=limits, mounts=mounts, environment={"PYTHONPATH": CODE}
        )
    except SandboxUnusable as error:
        raise ToolFailed(f"{job.failure}: {error}") from error
    except TooLarge as error:
        raise ToolFailed(f"{job.failure}: {error}.") from error


_JOBS: Final = "pipecatapp/tools/documents/jobs"


@lru_cache(1)
def _packages() -> tuple[Mount, ...]:
    """Show the files of these packages only, not the other packages of this installation."""
    shown = {}
    for name in DISTRIBUTIONS:
        try:
            found = distribution(name)
        except PackageNotFoundError:
            raise ToolFailed(
                f"The package {name} is missing. It is in Hearth's extra `{EXTRA}`."
            ) from None
        for file in found.files or ():
            top = file.parts[0]
            if top != ".." and not top.endswith((".dist-info", ".pth", "__pycache__")):
                shown[top] = Path(str(found.locate_file(top)))
    return tuple(Mount(path, f"{CODE}/{top}") for top, path in sorted(shown.items()))


def _result(folder: Path, job: Job, outcome: Outcome, limits: Limits) -> Any:
    if outcome.stopped is not None:
        reason = STOPPED[outcome.stopped].format(
            seconds=limits.seconds, memory=limits.memory // MIB, disk=limits.disk // MIB,
            processes=limits.processes,
        )  # fmt: skip
        raise ToolFailed(f"{job.failure}: {reason}.")
    if outcome.exit_code != 0:
        raise ToolFailed(f"{job.failure}: {_crash(outcome)}")
    try:
        with os.fdopen(open_plain(folder, "result.json"), "rb") as stream:
            said = json.loads(stream.read(LARGEST_RESULT))
    except (OSError, ValueError, RecursionError) as error:
        raise ToolFailed(f"{job.failure}: the parser gave no valid result.") from error
    if not isinstance(said, dict) or "done" not in said:
        reason = str(said.get("failed", "")) if isinstance(said, dict) else ""
        raise ToolFailed(f"{job.failure}: {reason[:1000]}")
    return said["done"]


def _crash(outcome: Outcome) -> str:
    """Describe an error that no parser should raise; the document caused it."""
    lines = [line for line in outcome.stderr.text.splitlines() if line.strip()]
    last = lines[-1].strip()[:200] if lines else f"exit code {outcome.exit_code}"
    if "MemoryError" in last:
        return "it needs too much memory."
    return f"the file is damaged, or uses something that is not supported ({last})."
