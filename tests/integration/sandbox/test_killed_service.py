"""A service that is killed while it starts programs leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.sandbox.conftest import means
from tests.integration.sandbox.test_limits import running

SERVICES = """
import asyncio, contextlib, ctypes, os, signal, sys
from pathlib import Path
from pipecatapp.sandbox import Limits, Sandbox, errand

CODE = "import time; time.sleep(240); open('/work/survived', 'w').close()"
PR_SET_CHILD_SUBREAPER = 36

async def program():
    task = errand.Errand([], Limits(seconds=300.0), code=CODE)
    await errand.carry_out(task, Path(sys.argv[1]), Sandbox(memory_cgroup=sys.argv[2] == "cgroup"))

# What a killed service leaves becomes a child of this process.
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in sys.stdin:
    service = os.fork()
    if service == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        print(os.getpid(), flush=True)
        asyncio.run(program())
with contextlib.suppress(ChildProcessError):
    os.wait()  # With SIGCHLD ignored, this waits for the end of the last child.
"""
"""Becomes a service that runs a program, at each line: a fork is quicker than many imports.

At the end of its input it waits for all that the services started, guards and programs. A program
that nothing ends leaves a file.
"""
KILLS = 40


def left(temporary: Path, services: set[int]) -> list[str]:
    """What is there of these services: processes, files, cgroups."""
    names = tuple(f"hearth-sandbox-{service}-" for service in services)
    processes = [str(process) for process in running(str(temporary))]
    files = [str(path) for path in temporary.rglob("*") if path != temporary / "work"]
    groups = [
        f"{folder}/{name}"
        # Other groups come and go meanwhile; `walk` passes over those that are gone.
        for folder, groups, _ in os.walk("/sys/fs/cgroup")
        for name in groups
        if name.startswith(names)
    ]
    return [*processes, *files, *groups]


@pytest.mark.parametrize("way", means())
def test_kill_during_the_start_of_a_program_leaves_nothing(tmp_path: Path, way: str) -> None:
    """bubblewrap ends with its parent only some milliseconds after it was started: 40 kills left
    8 sandboxes that nobody limited or ended."""
    (tmp_path / "work").mkdir()
    services: set[int] = set()
    with subprocess.Popen(
        [sys.executable, "-c", SERVICES, str(tmp_path / "work"), way],
        cwd=Path(__file__).parents[3], env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as parent:  # fmt: skip
        assert parent.stdin is not None
        assert parent.stdout is not None
        for number in range(KILLS):
            parent.stdin.write("\n")
            parent.stdin.flush()
            service = int(parent.stdout.readline())
            time.sleep(number * 0.001)  # each kill hits another moment of the start
            os.kill(service, signal.SIGKILL)
            services.add(service)
        parent.stdin.close()
        parent.wait()

    assert left(tmp_path, services) == []


KILLED = """
import ctypes, os, signal, subprocess, sys, tempfile, time
from pathlib import Path
import psutil

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
if os.fork() == 0:
    from pipecatapp.sandbox.leftovers import guard, new_name
    exec(sys.argv[2])
    os.kill(os.getpid(), signal.SIGKILL)
print(os.WTERMSIG(os.wait()[1]))
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""
"""A service that is killed after some code, and a parent that waits for all that it leaves."""


def after_kill(temporary: Path, code: str) -> list[str]:
    """Give the names of the files of a service that was killed after this code."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(temporary), code],
        cwd=Path(__file__).parents[3], env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    assert ended.stdout == f"{signal.SIGKILL:d}\n"
    return [path.name for path in temporary.iterdir()]


CHOICE = """
opened = []
sys.addaudithook(lambda event, facts: opened.append(facts[0]) if event == "open" else None)
guard.watch()
assert tempfile.gettempdir() == sys.argv[1]
assert not [name for name in opened if str(name).startswith(sys.argv[1])]
"""


def test_folder_of_temporary_files_is_chosen_without_a_file_that_a_kill_leaves(
    tmp_path: Path,
) -> None:
    """Python's own choice writes a file with a random name to the folder and removes it again."""
    assert after_kill(tmp_path, CHOICE) == []


STOP = """
guard.watch()
Path(sys.argv[1], f"{guard.mark}-code").touch()
psutil.Process().children()[0].terminate()
"""


def test_guard_that_is_asked_to_stop_while_it_starts_goes_on(tmp_path: Path) -> None:
    """A service manager sends SIGTERM to all processes of a service, also to a new guard."""
    assert after_kill(tmp_path, STOP) == []


LATE = """
guard.watch()
program = "import time; time.sleep(240); open('survived', 'w').close()"
late = "import os, sys, time; time.sleep(1); "
late += "os.execl(sys.executable, 'python', '-c', os.environ['PROGRAM'], os.environ['NAME'])"
subprocess.Popen(
    [sys.executable, "-c", late],
    cwd=sys.argv[1], env={"PROGRAM": program, "NAME": new_name()}, pass_fds=[guard.lifeline],
)
"""
"""A process gets the name of its sandbox a second after the kill: a fork on a busy machine."""


def test_sandbox_that_is_late_with_its_name_is_ended(tmp_path: Path) -> None:
    """A process has the arguments of its parent until it has started a program of its own: some
    scans that find nothing do not show that nothing is left."""
    assert after_kill(tmp_path, LATE) == []
