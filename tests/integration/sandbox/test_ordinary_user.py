"""The sandbox of a service that does not run as root, and has no cgroup: the usual case.

Tests run as root in continuous integration; there a child process becomes nobody.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipecatapp.sandbox.tree import remove

ROOT = Path(__file__).parents[3]
NOBODY = 65534
CODE = """
import asyncio, json, sys
from pathlib import Path
from pipecatapp.sandbox import Limits, Sandbox
from pipecatapp.sandbox.bubblewrap import python
async def main():
    folder, code, limits = Path(sys.argv[1]), sys.argv[2], Limits(**json.loads(sys.argv[3]))
    sandbox = Sandbox(memory_cgroup=False)
    ended = await sandbox.run([python(), "-I", "-c", code], folder, limits=limits)
    print(json.dumps([ended.stopped, ended.exit_code, ended.stdout.text, ended.stderr.text]))
asyncio.run(main())
"""


def interpreter() -> str:
    """A Python that nobody may start and that can use the packages of ours."""
    own = Path(sys.executable).resolve()
    if all(folder.stat().st_mode & 0o005 == 0o005 for folder in (own, *own.parents)):
        return sys.executable
    return "/usr/bin/python3"


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that nobody owns; pytest's own are root's."""
    path = Path(tempfile.mkdtemp(prefix="hearth-test-"))
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    yield path
    remove(path)


def attack(folder: Path, code: str, **limits: Any) -> list[Any]:
    """How the program ended: limit, exit code, output, errors."""
    become: dict[str, Any] = {}
    if os.geteuid() == 0:
        become = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    packages = Path(psutil.__file__).parents[1]
    ended = subprocess.run(
        [interpreter(), "-c", CODE, str(folder), code, json.dumps({"seconds": 60.0, **limits})],
        cwd=ROOT, env={"PATH": os.defpath, "PYTHONPATH": f"{ROOT}:{packages}"},
        capture_output=True, text=True, check=False, **become,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    result: list[Any] = json.loads(ended.stdout)
    return result


def test_program_of_an_ordinary_user_is_run(folder: Path) -> None:
    """Nothing of the sandbox may need root."""
    told = attack(folder, "import os; print(os.getuid()); open('/work/x', 'w')")

    assert told == [None, 0, "1000\n", ""]
    assert [path.name for path in folder.iterdir()] == ["x"]


def test_fork_bomb_of_an_ordinary_user_is_held_by_the_kernel(folder: Path) -> None:
    """The watch may be late; RLIMIT_NPROC, counted for this sandbox alone, is not."""
    code = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        made += 1
except OSError as error:
    print(made, error.strerror)
"""
    _, _, counted, _ = attack(folder, code, processes=30)
    # Without the `except`, it may end by the limit of the kernel before the watch has seen it.
    endless = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
    stopped, *_ = attack(folder, endless, processes=30)

    assert stopped == "processes"
    if counted:
        assert 20 < int(counted.split()[0]) < 40


def test_memory_of_an_ordinary_user_is_summed(folder: Path) -> None:
    """Without a cgroup, twenty processes together are stopped as one would be."""
    code = """
import os, time
for turn in range(20):
    if os.fork() == 0:
        time.sleep(turn * 0.3)  # one after the other, so that the watch sees it coming
        held = b"x" * (60 << 20)
        os.write(1, b"G")
        time.sleep(30)
time.sleep(30)
"""
    stopped, _, out, _ = attack(folder, code, memory=256 << 20)

    assert stopped == "memory"
    assert len(out) < 20


def test_folder_that_a_program_shut_is_still_looked_into(folder: Path) -> None:
    """Root sees everything; an ordinary user would be shut out by a program of its own."""
    code = """
import os, time
os.mkdir("d")
for i in range(40): open(f"d/{i}", "wb").write(bytes(4 << 20))
os.chmod("d", 0)
time.sleep(60)
"""
    stopped, *_ = attack(folder, code, disk=32 << 20)

    assert stopped == "disk"
