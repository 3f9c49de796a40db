"""A program as data, so that it can be run here or on another machine, and how it ended."""

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final, Self

from pipecatapp.sandbox import bundle
from pipecatapp.sandbox.bubblewrap import PATH, WORK, Mount, SandboxUnusable, python
from pipecatapp.sandbox.leftovers import guard
from pipecatapp.sandbox.limits import Limits
from pipecatapp.sandbox.output import Text
from pipecatapp.sandbox.sandbox import Outcome, Sandbox

SOURCE: Final = "/code/main"
"""Path of the program's source inside the sandbox, without the ending that its runner needs."""
ENDINGS: Final[Mapping[str, str]] = MappingProxyType({"javascript": ".js", "sql": ".sql"})
RUNNERS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "sh": ("/bin/sh", "{}"),
        "bash": ("/bin/bash", "{}"),
        "javascript": ("node", "{}"),
        "sql": ("sqlite3", "-batch", "-bail", ":memory:", ".read {}"),
    }
)
"""The command lines of source code; Python's depends on the packages that it needs."""
REFUSED: Final = "refused"


@dataclass(frozen=True)
class Errand:
    """A program to run: a `command`, or the source `code` in a `language` (python, or a key of
    `RUNNERS`)."""

    command: Sequence[str]
    limits: Limits
    code: str = ""
    language: str = "python"
    stdin: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    image: str = ""
    """Of the container, where it is run in one."""

    def as_data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Raises `TypeError` for what `as_data` has not made."""
        return cls(**{**data, "limits": Limits(**data["limits"])})

    def words(self, interpreter: str) -> list[str]:
        """The command line, where Python is at `interpreter`."""
        if not self.code:
            return list(self.command)
        runner = RUNNERS.get(self.language, (interpreter, "{}"))
        return [word.format(self.source) for word in runner]

    @property
    def source(self) -> str:
        """The path of the source code inside the sandbox."""
        return SOURCE + ENDINGS.get(self.language, "")

    def variables(self, path: str = PATH) -> dict[str, str]:
        """Return the environment variables of the program, without those of every program."""
        return {"PATH": path, "PYTHONPATH": WORK, **self.environment}


@contextlib.contextmanager
def source_of(code: str) -> Iterator[Path | None]:
    """Yield the program as a file outside of the workspace, which it should not change."""
    if not code:
        yield None
        return
    guard.watch()
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", errors="replace", prefix=f"{guard.mark}-code-"
    ) as file:
        file.write(code)
        file.flush()
        yield Path(file.name)


async def carry_out(
    errand: Errand,
    folder: Path,
    sandbox: Sandbox,
    *,
    interpreter: str = "",
    mounts: Sequence[Mount] = (),
) -> Outcome:
    """Run it in the sandbox of this machine; raises as `Sandbox.run` does."""
    interpreter = interpreter or python()
    path = f"{os.path.dirname(interpreter)}:{PATH}"  # noqa: PTH120 (a venv's link stays one)
    with source_of(errand.code) as source:
        shown = [] if source is None else [Mount(source, errand.source)]
        return await sandbox.run(
            errand.words(interpreter),
            folder,
            limits=errand.limits,
            stdin=errand.stdin.encode(errors="replace"),
            mounts=[*mounts, *shown],
            environment=errand.variables(path),
        )


def pack_outcome(target: BinaryIO, ended: Outcome, folder: Path) -> None:
    """How it ended, with the files that it added or changed."""
    changed = {path for path, change in ended.changes.items() if change != "removed"}
    bundle.pack(target, dataclasses.asdict(ended), folder, changed)


def unpack_outcome(source: BinaryIO, folder: Path, limits: Limits) -> Outcome:
    """Apply the changes of a program on another machine to the folder.

    Raises `SandboxUnusable` if it could not run there, `TooLarge`, and `ValueError` for an invalid
    outcome.
    """
    head = bundle.unpack(source, folder, size=limits.disk * 2, count=limits.files * 2)
    if REFUSED in head:
        raise SandboxUnusable(str(head[REFUSED]))
    try:
        said = {name: Text(**head[name]) for name in ("stdout", "stderr")}
        ended = Outcome(**{**head, **said})
    except (TypeError, KeyError) as error:
        raise ValueError(f"not an outcome: {error}") from error
    bundle.drop(folder, [path for path, change in ended.changes.items() if change == "removed"])
    return ended
