"""Programs in the real sandbox, with a cgroup where this machine lets us make one and without."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.sandbox import Limits, Outcome, Sandbox
from pipecatapp.sandbox.bubblewrap import python
from pipecatapp.sandbox.program_group import ProgramGroup
from pipecatapp.sandbox.tree import remove

Attack = Callable[..., Awaitable[Outcome]]
MIB = 1 << 20


def means() -> list[str]:
    """Name the ways that memory is held on this machine."""
    group = ProgramGroup.make(Limits())
    if group is None:
        return ["watched"]
    group.remove()
    return ["cgroup", "watched"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The one folder that the program may write in; what it leaves there can be removed."""
    work = tmp_path / "work"
    work.mkdir()
    yield work
    remove(work)


@pytest.fixture(params=means())
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """One for each way that memory is held here."""
    return Sandbox(memory_cgroup=request.param == "cgroup")


@pytest.fixture
def attack(sandbox: Sandbox, folder: Path) -> Attack:
    """`await attack("print(1)", seconds=2)` runs Python in the sandbox, under these limits."""

    async def run(code: str, *arguments: str, **limits: Any) -> Outcome:
        held = Limits(**{"seconds": 60.0, **limits})
        return await sandbox.run([python(), "-I", "-c", code, *arguments], folder, limits=held)

    return run
