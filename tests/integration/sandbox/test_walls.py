"""What a hostile program finds when it looks for a way out: nothing."""

import socket
import struct
import sys
import threading
from pathlib import Path

import psutil
import pytest

from pipecatapp.sandbox import Mount, Sandbox, seccomp
from pipecatapp.sandbox.bubblewrap import python
from tests.integration.sandbox.conftest import Attack

TRY = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    got = libc.syscall(ctypes.c_long(number), *arguments)
    print(number, "OPEN" if got >= 0 else errno.errorcode[ctypes.get_errno()])
def attempt(name, what):
    try:
        what()
    except OSError as error:
        print(name, errno.errorcode.get(error.errno, error))
    else:
        print(name, "OPEN")
"""


def modes_in(folder: Path) -> dict[str, int]:
    """What lies in a folder, with its permissions."""
    return {file.name: file.stat().st_mode & 0o7777 for file in folder.iterdir()}


async def test_program_has_no_network(attack: Attack) -> None:
    """A program that nobody has read must neither send anything away nor ask our own services."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ended = await attack(
            TRY
            + f"""
import socket
for place in (("127.0.0.1", {port}), ("10.0.0.1", 80), ("1.1.1.1", 53)):
    attempt(place[0], lambda: socket.create_connection(place, 2))
print(sorted(name for _, name in socket.if_nameindex()))
"""
        )

    assert "OPEN" not in ended.stdout.text
    assert ended.stdout.text.splitlines()[-1] == "['lo']"


async def test_program_has_a_loopback_of_its_own(attack: Attack) -> None:
    """Tests that a model writes start servers; they must find each other."""
    ended = await attack("""
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
server.accept()[0].send(b"hello")
print(client.recv(9))
""")

    assert ended.stdout.text == "b'hello'\n"


async def test_program_reaches_no_unix_socket_of_the_host(attack: Attack, tmp_path: Path) -> None:
    """Docker's socket is root; abstract ones have no file that could be hidden."""
    with (
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        named.bind(str(tmp_path / "s"))
        abstract.bind(f"\0hearth-{tmp_path}")
        for server in (named, abstract):
            server.listen()
        ended = await attack(
            TRY
            + f"""
import socket
for place in ({str(tmp_path / "s")!r}, "\\0hearth-{tmp_path}", "/var/run/docker.sock",
              "/run/dbus/system_bus_socket"):
    attempt("socket", lambda: socket.socket(socket.AF_UNIX).connect(place))
"""
        )

    assert sorted(set(ended.stdout.text.splitlines())) == ["socket ECONNREFUSED", "socket ENOENT"]


async def test_program_gets_only_sockets_that_know_their_namespace(attack: Attack) -> None:
    """A vsock speaks to the host of a virtual machine through every network namespace."""
    ended = await attack(
        TRY
        + """
import socket
for family, kind in ((40, 1), (38, 5), (31, 3), (17, 3), (15, 3), (29, 3)):
    attempt(family, lambda: socket.socket(family, kind))
"""
    )

    assert [line.split()[1] for line in ended.stdout.text.splitlines()] == ["EAFNOSUPPORT"] * 6


async def test_program_sees_no_secret_of_the_environment(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of services live in environments; models write programs that print theirs."""
    monkeypatch.setenv("SECRET_KEY", "hunter2")

    ended = await attack("""
import os, pathlib
print(sorted(os.environ))
for place in pathlib.Path("/proc").glob("[0-9]*/environ"):
    try:
        print(place.read_bytes())
    except OSError as error:
        print(error.strerror)
""")

    assert "hunter2" not in ended.stdout.text
    names = ["HOME", "LANG", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE", "TMPDIR", "USER"]
    assert ended.stdout.text.splitlines()[0] == str(names)


async def test_program_sees_no_file_of_the_host_but_its_system(
    attack: Attack, tmp_path: Path
) -> None:
    """Keys, notes and other people's homes are not there to be read."""
    (tmp_path / "key").write_text("sk-secret", encoding="utf-8")

    ended = await attack(
        "import os, sys\n"
        "for place in sys.argv[1:]: print(os.path.exists(place), place)\n"
        "print(sorted(os.listdir('/etc')), sorted(os.listdir('/home')))",
        str(tmp_path / "key"), "/etc/shadow", "/etc/hostname", "/root/.ssh", "/var", "/run",
        "/sys", "/boot", "/proc/kcore", str(Path(sys.prefix)), str(Path(__file__).parents[3]),
    )  # fmt: skip

    assert "True" not in ended.stdout.text
    assert ended.stdout.text.splitlines()[-1] == (
        "['alternatives', 'group', 'hearth-variables', 'ld.so.cache', 'passwd'] ['sandbox']"
    )


async def test_program_can_write_nowhere_but_in_its_folder(attack: Attack, folder: Path) -> None:
    """What it leaves behind must be where we look for it, and nowhere else."""
    ended = await attack(
        TRY
        + """
for place in ("/usr/x", "/x", "/dev/x", "/etc/passwd", "/etc/x", "/proc/self/comm",
              "/proc/self/oom_score_adj", "/proc/sys/kernel/core_pattern",
              "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger", "/home/x"):
    attempt(place, lambda: open(place, "r+" if os.path.exists(place) else "w"))
for place in ("/work/x", "/tmp/x", "/home/sandbox/x", "/dev/shm/x", "/dev/null"):
    attempt("may", lambda: open(place, "w"))
"""
    )

    lines = ended.stdout.text.splitlines()
    assert [line for line in lines if "OPEN" in line] == ["may OPEN"] * 5
    assert modes_in(folder).keys() == {"x"}
    assert ended.changes == {"x": "added"}


async def test_program_sees_and_signals_only_its_own_processes(attack: Attack) -> None:
    """It must not end the service that started it, nor look into it."""
    me = psutil.Process()

    ended = await attack(
        TRY
        + f"""
import signal
print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit()) == [1, os.getpid()])
attempt("us", lambda: os.kill({me.pid}, 9))
attempt("parent", lambda: os.kill(os.getppid(), 9))
print(os.getppid(), os.path.exists("/proc/1/comm"))
attempt("its memory", lambda: open("/proc/1/mem", "r+b"))
for name in sorted(set(os.listdir("/proc/1/fd")) - {{"0", "1", "2"}}):
    attempt("its files", lambda: os.open("/proc/1/fd/" + name, os.O_WRONLY))
for name in sorted(set(os.listdir("/proc/self/fd")) - {{"0", "1", "2"}}):
    attempt("handed down", lambda: os.fstat(int(name)))
attempt("all", lambda: os.kill(-1, 9))
"""
    )

    assert ended.stdout.text.splitlines() == [
        "True", "us ESRCH", "parent OPEN", "1 True", "its memory EROFS", "its files ENXIO",
        "its files ENXIO", "handed down EBADF", "all ESRCH",
    ]  # fmt: skip
    assert me.is_running()
    assert ended.exit_code == 0


async def test_program_cannot_call_what_opens_the_kernel(attack: Attack) -> None:
    """Each of these calls has been a way out of a container: ptrace, mount, new namespaces, keys,
    io_uring, bpf, perf, userfaultfd, handles, other processes' memory.
    """
    numbers = {
        "ptrace": 101, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161,
        "unshare": 272, "setns": 308, "keyctl": 250, "add_key": 248, "request_key": 249,
        "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "open_by_handle_at": 304,
        "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "init_module": 175,
        "kexec_load": 246, "reboot": 169, "swapon": 167, "open_tree": 428, "move_mount": 429,
        "fsopen": 430, "pidfd_getfd": 438, "syslog": 103, "quotactl": 179,
    }  # fmt: skip

    ended = await attack(
        TRY + f"for number in {sorted(numbers.values())}: call(number, 0, 0, 0, 0, 0)\n"
        "for number in (425, 435): call(number, 0, 0)\n"
        "call(0x40000000 + 39)\n"  # getpid in the x32 convention
        "call(56, 0x10000000 | 17, 0, 0, 0, 0)\n"  # clone with CLONE_NEWUSER
    )

    said = [line.split()[1] for line in ended.stdout.text.splitlines()]
    assert said == ["EPERM"] * len(numbers) + ["ENOSYS"] * 3 + ["EPERM"]


async def test_program_makes_no_user_namespace_even_where_no_filter_refuses_it(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside one it would be root before much of the kernel; a call that a filter has forgotten, or
    a processor whose calls it does not know, must not be enough.
    """
    allows_all = struct.pack("HBBI", seccomp.RETURN, 0, 0, seccomp.ALLOW)
    monkeypatch.setattr(seccomp, "program", lambda *_arguments, **_named: allows_all)

    ended = await attack(
        TRY + "print(libc.unshare(0x10000000), errno.errorcode.get(ctypes.get_errno()))"
    )

    assert ended.stdout.text == "-1 ENOSPC\n"


async def test_program_has_no_power_and_can_get_none(attack: Attack) -> None:
    """No capability, no new privileges, no set-uid program that works, and nobody's terminal."""
    ended = await attack("""
import os
lines = open("/proc/self/status").read().splitlines()
facts = dict(line.split(":\\t") for line in lines if ":\\t" in line)
print([facts[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")])
terminals = [os.path.exists(place) for place in ("/dev/tty", "/dev/ptmx")]
print(os.getuid(), os.getgid(), os.getgroups(), *terminals)
""")

    none = "0" * 16
    assert ended.stdout.text.splitlines() == [
        str([none, none, none, none, "1", "2"]), "1000 1000 [] False False",
    ]  # fmt: skip


async def test_program_leaves_no_set_uid_file(attack: Attack, folder: Path) -> None:
    """Its files belong to the user of the service: a set-uid one would make anybody that user."""
    ended = await attack(
        TRY
        + """
open("/work/a", "w").close()
attempt("chmod", lambda: os.chmod("/work/a", 0o4755))
attempt("fchmod", lambda: os.chmod(os.open("/work/a", os.O_RDONLY), 0o2755))
attempt("open", lambda: os.open("/work/b", os.O_CREAT | os.O_WRONLY, 0o4755))
attempt("mknod", lambda: os.mknod("/work/c", 0o104755))
call(268, -100, b"/work/a", 0o4755, 0)
call(452, -100, b"/work/a", 0o4755, 0)
os.chmod("/work/a", 0o755)
"""
    )

    said = [line.split()[1] for line in ended.stdout.text.splitlines()]
    assert [name for name in said if name not in ("EPERM", "ENOSYS")] == []
    assert modes_in(folder) == {"a": 0o755}


async def test_what_is_shown_read_only_stays_as_it_is(
    sandbox: Sandbox, folder: Path, tmp_path: Path
) -> None:
    """Packages are shared by runs: one must not plant anything for the next."""
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "a").write_text("1", encoding="utf-8")
    code = TRY + 'print(open("/shown/a").read())\nattempt("w", lambda: open("/shown/a", "r+"))'

    ended = await sandbox.run(
        [python(), "-I", "-c", code], folder, mounts=[Mount(tmp_path / "shown", "/shown")]
    )

    assert ended.stdout.text.splitlines() == ["1", "w EROFS"]


async def test_two_programs_do_not_see_each_other(attack: Attack) -> None:
    """Two runs of two people share a machine; shared memory and /tmp are each their own."""
    first = await attack("open('/tmp/x', 'w'); open('/dev/shm/x', 'w')")
    second = await attack("import os; print(os.listdir('/tmp'), os.listdir('/dev/shm'))")

    assert (first.exit_code, second.stdout.text) == (0, "[] []\n")
    assert threading.active_count() < 50
