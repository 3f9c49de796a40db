"""What a hostile program uses up: never more than it was given, and each limit says its name."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pipecatapp.sandbox import Limits, Sandbox
from pipecatapp.sandbox.bubblewrap import python
from tests.integration.sandbox.conftest import MIB, Attack

FILL = """
def fill(bytes):
    held = bytearray(bytes)
    for place in range(0, bytes, 4096):
        held[place] = 1
    return held
"""
BOMBS = {
    "python": "import os\nwhile True:\n    os.fork()",
    "shell": "import os; os.execv('/bin/sh', ['sh', '-c', 'b() { b | b & b; }; b'])",
    "threads": "import threading, time\nwhile True:\n"
    "    threading.Thread(target=time.sleep, args=(60,)).start()",
}


def running(mark: str) -> list[psutil.Process]:
    """The processes of this machine that have the mark in their command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            dead = process.status() == psutil.STATUS_ZOMBIE
            if not dead and mark in " ".join(process.cmdline()):
                found.append(process)
    return found


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """A word to give a program on its command line; afterwards no process may have it."""
    word = f"mark-{os.getpid()}-{tmp_path.name}"
    yield word
    ends = time.monotonic() + 60
    while (left := running(word)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert left == []


@pytest.mark.parametrize("code", ["while :; do :; done", "sleep 60; :"])
async def test_program_is_stopped_when_its_time_is_over(
    sandbox: Sandbox, folder: Path, code: str, mark: str
) -> None:
    """A workflow must go on, or fail, when a program that a model wrote never ends."""
    begin = time.monotonic()

    # A shell has begun long before its time is over, on a busy machine too.
    program = ["sh", "-c", f"echo begun; {code}", mark]
    ended = await sandbox.run(program, folder, limits=Limits(seconds=2.0))

    assert (ended.stopped, ended.exit_code, ended.stdout.text) == ("time", None, "begun\n")
    # Its own end would come after a minute only.
    assert time.monotonic() - begin < 50


async def test_processor_time_is_limited_by_itself(attack: Attack) -> None:
    """A program with a generous deadline must not burn a core until then."""
    ended = await attack("while True: pass", cpu=1)

    assert (ended.stopped, ended.exit_code) == ("cpu", None)


@pytest.mark.parametrize("bomb", BOMBS)
async def test_fork_bomb_is_stopped_and_leaves_no_process(
    attack: Attack, bomb: str, mark: str
) -> None:
    """A house's computer goes on to answer while a program tries to drown it."""
    ended = await attack(BOMBS[bomb], mark, processes=40)

    assert ended.stopped == "processes"


async def test_memory_of_one_process_is_limited(attack: Attack) -> None:
    """4 GB in a program must not push the model that everybody uses out of memory."""
    ended = await attack(f"{FILL}\nfill(4 << 30); print('GOT')", memory=256 * MIB)

    assert ended.stdout.text == ""
    assert ended.stopped == "memory" or "MemoryError" in ended.stderr.text


async def test_memory_grown_step_by_step_ends_as_memory(attack: Attack) -> None:
    """The kind of the limit is what a workflow can act on."""
    ended = await attack(
        f"{FILL}\nheld = []\nwhile True: held.append(fill(4 << 20))", memory=256 * MIB
    )

    assert ended.stopped == "memory"


async def test_memory_is_summed_over_all_processes(attack: Attack) -> None:
    """Twenty children with a modest need each are as bad as one with a huge one."""
    ended = await attack(
        FILL
        + """
import os, time
for turn in range(20):
    if os.fork() == 0:
        time.sleep(turn * 0.2)  # one after the other, so that the watch sees it coming
        held = fill(100 << 20)
        os.write(1, b"G")
        time.sleep(30)
time.sleep(30)
""",
        memory=512 * MIB,
    )

    assert ended.stopped == "memory"
    assert len(ended.stdout.text) < 20


async def test_memory_that_children_share_is_counted_once(attack: Attack) -> None:
    """Pools of workers are how Python uses many cores; each has its parent's pages."""
    ended = await attack(
        FILL
        + """
import os, time
held = fill(200 << 20)
for _ in range(6):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
for _ in range(6):
    os.wait()
print("well")
""",
        memory=512 * MIB,
    )

    assert (ended.stdout.text, ended.stopped) == ("well\n", None)


HIDDEN = {
    "memfd": "file = os.memfd_create('x')\nos.write(file, bytes(4 << 20))\nheld.append(file)",
    "shared": "page = mmap.mmap(-1, 4 << 20)\npage.write(bytes(4 << 20))\nheld.append(page)",
    "zero": "file = os.open('/dev/zero', os.O_RDWR)\npage = mmap.mmap(file, 4 << 20)\n"
    "os.close(file)\npage.write(bytes(4 << 20))\nheld.append(page)",
    "system-v": "libc.shmget.restype = ctypes.c_int\nnumber = libc.shmget(0, 4 << 20, 0o1600)\n"
    "assert number >= 0\nlibc.shmat.restype = ctypes.c_void_p\n"
    "place = libc.shmat(number, None, 0)\nctypes.memset(place, 1, 4 << 20)\n"
    "libc.shmdt(ctypes.c_void_p(place))",
    "files": "open('/dev/shm/' + str(len(held)), 'wb').write(bytes(4 << 20))\nheld.append(1)",
}

KERNEL = {
    "socket buffers": "pair = socket.socketpair()\npair[0].setblocking(False)\n"
    "pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)\n"
    "try:\n    while True: pair[0].send(bytes(1 << 16))\n"
    "except BlockingIOError: held.append(pair)",
    "datagrams": "end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    "end.bind(('127.0.0.1', 0))\n"
    "for _ in range(20): end.sendto(bytes(1 << 15), end.getsockname())\nheld.append(end)",
    "page tables": "page = mmap.mmap(-1, 1 << 30, mmap.MAP_PRIVATE, mmap.PROT_READ)\n"
    "for place in range(0, 1 << 30, 1 << 21): page[place]\nheld.append(page)",
    "semaphores": "number = libc.semget(0, 30000, 0o1600)\nassert number >= 0",
    "messages": "number = libc.msgget(0, 0o1600)\nassert number >= 0\n"
    "for _ in range(4): libc.msgsnd(number, ctypes.create_string_buffer(4100), 4096, 0o4000)",
    "inodes": "for _ in range(2000):\n"
    "    held.append(1)\n    open('/tmp/' + str(len(held)) + 'x' * 200, 'w').close()",
}
"""What makes the kernel keep memory for a program that has none of it mapped."""


@pytest.mark.parametrize("way", KERNEL)
async def test_memory_that_the_kernel_keeps_for_a_program_is_limited(
    sandbox: Sandbox, folder: Path, way: str
) -> None:
    """Without a cgroup a program could take 1 GiB in each of these ways, within any limit; with one
    of version 1 in datagrams and messages."""
    body = KERNEL[way].replace("\n", "\n    ")
    code = (
        "import ctypes, mmap, os, socket, time\nlibc = ctypes.CDLL(None)\nheld = []\n"
        # Slowly, so that the watch sees it coming on a busy machine.
        f"for _ in range(1500):\n    {body}\n    time.sleep(0.002)\nprint('GOT')"
    )
    limits = Limits(seconds=60.0, memory=128 * MIB, opened=4096)

    ended = await sandbox.run([python(), "-c", code], folder, limits=limits)

    assert "GOT" not in ended.stdout.text
    assert ended.stopped == "memory" or "AssertionError" in ended.stderr.text


async def test_program_with_a_few_sockets_and_files_is_within_its_memory(attack: Attack) -> None:
    """What the watch adds for sockets and files must leave room for an ordinary test suite."""
    ended = await attack(
        "import socket, time\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "held = [socket.create_connection(server.getsockname()) for _ in range(20)]\n"
        "held += [socket.socketpair() for _ in range(50)]\n"
        "for number in range(2000): open(f'/tmp/{number}', 'w').close()\n"
        "time.sleep(0.5)\nprint('well')",
        memory=256 * MIB,
    )

    assert (ended.stdout.text, ended.stopped) == ("well\n", None)


@pytest.mark.parametrize("way", HIDDEN)
async def test_memory_that_no_process_has_mapped_is_limited_too(attack: Attack, way: str) -> None:
    """Shared memory outlives its mapping: a sum over processes alone would not see it."""
    body = HIDDEN[way].replace("\n", "\n    ")
    code = (
        "import ctypes, mmap, os, time\nlibc = ctypes.CDLL(None)\nheld = []\n"
        # Slowly, so that the watch sees it coming on a busy machine.
        f"for _ in range(500):\n    {body}\n    time.sleep(0.005)\nprint('GOT')"
    )

    ended = await attack(code, memory=256 * MIB, scratch=32 * MIB)

    assert "GOT" not in ended.stdout.text
    assert ended.stopped == "memory" or ended.exit_code == 1


async def test_output_flood_is_stopped_and_its_ends_are_kept(attack: Attack) -> None:
    """1 GB of output must fill neither our memory nor the ledger; head and tail tell enough."""
    ended = await attack(
        "print('first')\nfor _ in range(1 << 14): print('x' * 65535)",
        output=32 * MIB, kept=4096,
    )  # fmt: skip

    assert ended.stopped == "output"
    assert ended.stdout.text.startswith("first\nxxx")
    assert len(ended.stdout.text) < 5000
    assert ended.stdout.cut > 30 * MIB


async def test_output_within_its_limit_keeps_head_and_tail(attack: Attack) -> None:
    """The reason of a failure is in the last lines, what was started in the first ones."""
    ended = await attack(
        "import sys\nprint('first')\nprint('x' * 100000)\nprint('last')\nsys.stderr.write('e')",
        kept=1000,
    )

    assert (ended.exit_code, ended.stopped, ended.stderr.text) == (0, None, "e")
    assert ended.stdout.text.startswith("first\n")
    assert ended.stdout.text.endswith("x\nlast\n")
    assert ended.stdout.cut == 100_012 - 1000
    assert f"[… {ended.stdout.cut} bytes cut …]" in ended.stdout.text


DISK = {
    "many files": "for i in range(60): open(f'f{i}', 'wb').write(bytes(4 << 20))",
    "sparse files": "for i in range(60): open(f'f{i}', 'wb').truncate(30 << 20)",
    "tiny files": "for i in range(50000): open(f'f{i}', 'w').close()",
    "reserved": "for i in range(60):\n"
    "    try: os.posix_fallocate(os.open(f'f{i}', os.O_CREAT | os.O_RDWR), 0, 30 << 20)\n"
    "    except OSError: os.write(os.open(f'f{i}', os.O_RDWR), bytes(30 << 20))",
    "folders": "import os\nfor i in range(3000):\n    os.mkdir('d'); os.chdir('d')",
    "shut folder": "os.mkdir('d')\nfor i in range(60): open(f'd/{i}', 'wb').write(bytes(4 << 20))\n"
    "os.chmod('d', 0)",
}


@pytest.mark.parametrize("way", DISK)
async def test_disk_is_not_filled(attack: Attack, folder: Path, way: str) -> None:
    """A full disk takes the ledger with it, and so everybody's runs."""
    ended = await attack(
        f"import os, time\n{DISK[way]}\nprint('GOT', flush=True)\ntime.sleep(60)",
        disk=64 * MIB, file=32 * MIB, files=2000, seconds=50.0,
    )  # fmt: skip

    assert ended.stopped == "disk"


async def test_one_file_cannot_grow_beyond_its_limit(attack: Attack) -> None:
    """The program sees the failure of its own write, and can say so."""
    ended = await attack(
        "try: open('f', 'wb').write(bytes(40 << 20))\nexcept OSError as error: print(error.errno)",
        file=16 * MIB,
    )

    assert (ended.stdout.text, ended.exit_code) == ("27\n", 0)


async def test_temporary_folders_are_small(attack: Attack) -> None:
    """They lie in memory."""
    ended = await attack(
        "for place in ('/tmp', '/dev/shm', '/home/sandbox'):\n"
        "    try: open(place + '/x', 'wb').write(bytes(40 << 20))\n"
        "    except OSError as error: print(error.errno)",
        scratch=16 * MIB,
    )

    assert ended.stdout.text == "28\n" * 3


async def test_nothing_of_a_program_outlives_it(attack: Attack, mark: str) -> None:
    """A child that hides in a session of its own would work on when its run has long ended."""
    ended = await attack(
        """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
print("left")
""",
        mark,
    )

    assert (ended.stdout.text, ended.exit_code) == ("left\n", 0)


async def test_cancelled_program_is_gone_when_the_cancelling_returns(
    sandbox: Sandbox, folder: Path, mark: str
) -> None:
    """Cancelling a run must mean that nothing of it runs any more."""
    program = [python(), "-c", "import time; open('begun', 'w'); time.sleep(60)", mark]
    work = asyncio.ensure_future(sandbox.run(program, folder, limits=Limits(seconds=30)))
    while not (folder / "begun").exists():  # noqa: ASYNC110 (another process makes it)
        await asyncio.sleep(0.02)

    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work

    assert running(mark) == []


def test_program_dies_with_the_service_that_started_it(folder: Path, mark: str) -> None:
    """After kill -9 of the service nobody is left who would hold its limits."""
    service = subprocess.Popen(
        [sys.executable, "-c", f"""
import asyncio
from pathlib import Path
from pipecatapp.sandbox import Sandbox
asyncio.run(Sandbox(memory_cgroup=False).run(
    [{python()!r}, "-c", "import time; open('begun', 'w'); time.sleep(60)", {mark!r}],
    Path({str(folder)!r})))
"""],
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    try:
        while not (folder / "begun").exists():
            assert service.poll() is None
            time.sleep(0.02)
        assert running(mark)
    finally:
        service.kill()
        service.wait()


async def test_input_is_given_and_a_program_that_does_not_read_it_is_no_failure(
    sandbox: Sandbox, folder: Path
) -> None:
    """Data may be larger than a pipe, and the program may not want it."""
    size = [python(), "-c", "import sys; print(len(sys.stdin.read()))"]

    read = await sandbox.run(size, folder, stdin=b"x" * (2 * MIB))
    unread = await sandbox.run(["true"], folder, stdin=b"x" * (2 * MIB))

    assert (read.stdout.text, unread.exit_code) == (f"{2 * MIB}\n", 0)


@pytest.mark.parametrize(
    ("code", "given"),
    [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 15)", 143), ("x", 1)],
)
async def test_exit_code_is_data(attack: Attack, code: str, given: int) -> None:
    """A failing test suite is a result, not a failure of the tool that ran it."""
    ended = await attack(code)

    assert (ended.exit_code, ended.stopped) == (given, None)


async def test_variables_of_a_program_are_set_after_its_limits(
    sandbox: Sandbox, folder: Path
) -> None:
    """The loader obeys variables: `LD_PRELOAD` would run a library of the program inside of what
    sets the limits, which it could prevent."""
    traced = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": "/work/trace"}

    ended = await sandbox.run([python(), "-c", "print(1)"], folder, environment=traced)

    traces = "".join((folder / name).read_text(errors="replace") for name in ended.changes)
    assert ended.stdout.text == "1\n"
    assert "python" in traces
    assert "prlimit" not in traces
    assert "nice" not in traces


async def test_variables_reach_the_program_as_they_were_given(
    sandbox: Sandbox, folder: Path
) -> None:
    """A shell sets them: quotes, line ends, bytes that are no text and odd names must survive."""
    given = {
        "PLAIN": "a'b\"c $HOME `id` \\n", "LINES": "one\ntwo\n", "BYTES": "\udcff", "EMPTY": "",
        "odd.name": "x", "IFS": ":", "PS4": "+ ", "PATH": "/usr/bin:/bin",
    }  # fmt: skip
    code = f"import os\nfor name in {list(given)!r}: print(repr(os.environ.get(name)))"

    ended = await sandbox.run([python(), "-c", code], folder, environment=given)

    assert ended.stdout.text.splitlines() == [repr(value) for value in given.values()]
