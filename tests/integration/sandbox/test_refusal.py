"""Where bubblewrap cannot work nothing is run, and the reason is told."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipecatapp.sandbox import Sandbox, SandboxUnusable, bubblewrap
from pipecatapp.sandbox.bubblewrap import python

ROOT = Path(__file__).parents[3]
CODE = """
import asyncio, sys
from pathlib import Path
from pipecatapp.sandbox import Sandbox, SandboxUnusable
try:
    asyncio.run(Sandbox(memory_cgroup=False).run(["touch", "ran"], Path(sys.argv[1])))
except SandboxUnusable as error:
    print(error)
"""


@pytest.fixture(autouse=True)
def looked_for_anew() -> Iterator[None]:
    """What was found once is remembered; here it changes."""
    bubblewrap.find.cache_clear()
    yield
    bubblewrap.find.cache_clear()


def program(folder: Path, text: str) -> Path:
    folder.mkdir()
    file = folder / "bwrap"
    file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    file.chmod(0o755)
    return folder


async def test_without_bubblewrap_nothing_is_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain process instead of a sandbox would be the worst of all fallbacks."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SandboxUnusable, match="apt-get install bubblewrap"):
        await Sandbox().run(["/usr/bin/touch", "ran"], folder)

    assert os.listdir(folder) == []  # noqa: PTH208


async def test_bubblewrap_that_is_too_old_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 11 has one that cannot forbid user namespaces."""
    old = program(tmp_path / "bin", "echo bubblewrap 0.4.1")
    monkeypatch.setenv("PATH", str(old))

    with pytest.raises(SandboxUnusable, match=r"0\.4.*0\.8 or newer"):
        await Sandbox().run(["/usr/bin/touch", "ran"], folder)


def test_machine_that_allows_no_namespaces_is_told_what_to_do(folder: Path) -> None:
    """Containers and hardened systems are where this happens; here the kernel really refuses."""
    words = ["bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/", "--"]

    ended = subprocess.run(
        [*words, sys.executable, "-c", CODE, str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "bubblewrap cannot work here:" in ended.stdout, ended.stderr
    assert "user namespaces" in ended.stdout
    assert list(folder.iterdir()) == []


async def test_program_that_is_not_there_is_the_programs_own_failure(folder: Path) -> None:
    """It must not be taken for a sandbox that does not work."""
    ended = await Sandbox().run(["no-such-program"], folder)

    assert (ended.exit_code, ended.stopped) == (127, None)
    assert "no-such-program" in ended.stderr.text


async def test_python_of_this_installation_is_there_without_its_packages(folder: Path) -> None:
    """The code of Hearth is no secret, but it is not there to be built upon either."""
    ended = await Sandbox().run([python(), "-c", "import sys; print(sys.version)\nimport psutil"],
                                folder)  # fmt: skip

    assert ended.stdout.text == f"{sys.version}\n"
    assert "No module named 'psutil'" in ended.stderr.text


def test_root_without_a_cgroup_is_refused(folder: Path) -> None:
    """The kernel does not count root's processes anywhere else: a fork bomb would have no end."""
    hidden = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/sys/fs/cgroup", "--"]

    ended = subprocess.run(
        [*hidden, sys.executable, "-c", CODE, str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    if os.geteuid() == 0:
        assert "runs as root" in ended.stdout, ended.stderr
        assert list(folder.iterdir()) == []
    else:
        assert [path.name for path in folder.iterdir()] == ["ran"], ended.stderr
