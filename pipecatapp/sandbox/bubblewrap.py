"""The command line of bubblewrap: what a program in the sandbox sees, and whether it works here."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from pipecatapp.sandbox import seccomp
from pipecatapp.sandbox.limits import Limits

OLDEST: Final = (0, 8)
"""The first bubblewrap with `--disable-userns`."""
WORK: Final = "/work"
"""Where the one writable folder is."""
HOME: Final = "/home/sandbox"
USER: Final = 1000
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": PATH,
    "HOME": HOME,
    "USER": "sandbox",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",
    "PYTHONDONTWRITEBYTECODE": "1",
}
VARIABLES: Final = "/etc/hearth-variables"
"""Sets the program's own variables, as a script of the shell."""
ENTER: Final = '. "$0"; exec "$@"'
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
OF_THE_SHELL: Final = frozenset({"IFS", "LINENO", "OPTARG", "OPTIND", "PPID", "PS4", "PWD"})
"""Variables with a meaning to the shell itself, and none to a loader."""
DEVICES: Final = ("null", "full", "random", "urandom")
SYSTEM_LINKS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
SYSTEM_FILES: Final = ("/etc/alternatives", "/etc/ld.so.cache")
PASSWD: Final = f"sandbox:x:{USER}:{USER}::{HOME}:/bin/sh\n".encode()
GROUP: Final = f"sandbox:x:{USER}:\n".encode()
SLACK: Final = 8
"""Processes above the limit before a call fails: a program at its limit is stopped with a reason,
which is clearer than an error inside of it.
"""
NICE: Final = 10
"""Voice and other services have priority over programs."""
UNWATCHED: Final = 4
"""How many times its memory one process can have at most while the watch is late."""
REMEDIES: Final = (
    (
        r"[Nn]amespace|[Uu]ser namespaces|uid map|RTM_NEWADDR",
        "Unprivileged user namespaces are disabled on this machine. On Ubuntu, give bwrap an"
        " AppArmor profile, on older Debian set `sysctl kernel.unprivileged_userns_clone=1`; a"
        " container needs a seccomp profile that allows them.",
    ),
)


UNLIMITED_ROOT: Final = (
    "Programs cannot be limited here: this service runs as root, whose processes the kernel counts"
    " only in a cgroup, and none can be made. Run it as an ordinary user."
)


class SandboxUnusable(Exception):
    """No program can run, because bubblewrap does not work on this machine; the text is the reason.

    `hearth doctor` reports the same. Programs never run outside of the sandbox instead.
    """


@dataclass(frozen=True)
class Mount:
    """A file or folder that is shown in the sandbox at `target`, read-only unless `writable`."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Descriptors:
    """Open files that bubblewrap reads from, writes to or, the lifeline, only holds open."""

    lifeline: int
    seccomp: int
    status: int
    passwd: int
    group: int
    base_variables: int
    variables: int

    def all(self) -> tuple[int, ...]:
        return (
            self.lifeline, self.seccomp, self.status, self.passwd, self.group,
            self.base_variables, self.variables,
        )  # fmt: skip


def command_line(
    program: str,
    command: Sequence[str],
    mounts: Sequence[Mount],
    limits: Limits,
    files: Descriptors,
    *,
    name: str,
    counted: bool,
) -> list[str]:
    """bubblewrap with all that the sandbox promises; the limits of a process are set inside.

    `name` is an argument without an effect, by which the processes are found: see `leftovers`.
    """
    words = [
        program, "--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent",
        "--new-session", "--cap-drop", "ALL", "--uid", str(USER), "--gid", str(USER),
        "--hostname", "sandbox", "--unsetenv", name, "--clearenv",
        "--args", str(files.base_variables),
    ]  # fmt: skip
    words += [*_system(files), *_devices(counted=counted), *_scratch(limits)]
    for mount in mounts:
        words += ["--bind" if mount.writable else "--ro-bind", str(mount.source), mount.target]
    # Last, so that the places to mount on could be made: nothing of this is written by anyone.
    words += ["--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"]
    words += ["--chdir", WORK, "--seccomp", str(files.seccomp)]
    words += ["--json-status-fd", str(files.status), "--sync-fd", str(files.lifeline)]
    return [*words, "--", *_limited(limits, counted=counted), *command]


def base_variables() -> bytes:
    """Write as arguments what every program has."""
    return "".join(f"--setenv\0{name}\0{value}\0" for name, value in ENVIRONMENT.items()).encode()


def variables(environment: Mapping[str, str]) -> bytes:
    """Write the program's environment as a script, which is read after its limits are set.

    If it were set earlier, `LD_PRELOAD` would load a library of the program into the process that
    sets the limits. It is a file, because every user of the machine can read a command line.
    Variables that a shell cannot set are passed to env, on whose command line they are until the
    program starts.
    """
    script, others = "", ""
    for name, value in environment.items():
        if IDENTIFIER.fullmatch(name) and name not in OF_THE_SHELL:
            script += f"export {name}={shlex.quote(value)}\n"
        else:
            others += f" {shlex.quote(f'{name}={value}')}"
    if others:
        script += f'set -- /usr/bin/env{others} "$@"\n'
    return script.encode(errors="surrogateescape")


def _system(files: Descriptors) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in SYSTEM_LINKS:
        place = Path("/", name)
        if place.is_symlink():
            yield from ("--symlink", f"usr/{name}", f"/{name}")
        elif place.is_dir():
            yield from ("--ro-bind", f"/{name}", f"/{name}")
    for file in SYSTEM_FILES:
        yield from ("--ro-bind-try", file, file)
    yield from ("--ro-bind-data", str(files.passwd), "/etc/passwd")
    yield from ("--ro-bind-data", str(files.group), "/etc/group")
    yield from ("--ro-bind-data", str(files.variables), VARIABLES)


def _devices(*, counted: bool) -> Iterator[str]:
    """Yield options for devices: no terminals; /dev/zero, whose shared mappings are charged to
    no process, only if a cgroup counts memory."""
    yield from ("--proc", "/proc", "--tmpfs", "/dev")
    for name in (*DEVICES, "zero") if counted else DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    links = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
    for name, end in links.items():
        yield from ("--symlink", f"/proc/self/fd{end}", f"/dev/{name}")


def _scratch(limits: Limits) -> Iterator[str]:
    for folder in ("/tmp", "/dev/shm", HOME):
        yield from ("--perms", "0700", "--size", str(limits.scratch), "--tmpfs", folder)


def _limited(limits: Limits, *, counted: bool) -> Iterator[str]:
    yield from ("/usr/bin/nice", "-n", str(NICE), "/usr/bin/prlimit")
    yield f"--nproc={limits.processes + SLACK}"
    yield f"--cpu={limits.cpu}:{limits.cpu + 1}"
    yield f"--fsize={limits.file}"
    yield f"--nofile={limits.opened}"
    yield "--core=0"
    if not counted:
        yield f"--data={UNWATCHED * limits.memory}"
    yield from ("--", "/bin/sh", "-c", ENTER, VARIABLES)


def mounts_of(folder: Path, read_only: Sequence[Mount]) -> list[Mount]:
    """The writable folder, the Python of this installation where it is not the system's, others."""
    python = Path(sys.base_prefix)
    own = [] if python.is_relative_to("/usr") else [Mount(python, str(python))]
    return [*own, *read_only, Mount(folder, WORK, writable=True)]


def python() -> str:
    """The Python that programs in the sandbox are run with: the one this program is run with,
    without its packages.
    """
    return str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}"))


def is_root() -> bool:
    """Whether this is the user whom RLIMIT_NPROC does not bind: root, and not of a container."""
    mapped = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
    return os.geteuid() == 0 and mapped[:2] == ["0", "0"]


@lru_cache(1)
def find() -> str:
    """The path of a bubblewrap that works; raises `SandboxUnusable` with the reason."""
    if not sys.platform.startswith("linux"):
        raise SandboxUnusable(f"The sandbox needs Linux, and this is {sys.platform}.")
    if not seccomp.known():
        raise SandboxUnusable("The sandbox has no system call filter for this processor.")
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxUnusable(
            "bubblewrap is not installed: run `apt-get install bubblewrap` as root."
        )
    if shutil.which("prlimit", path=PATH) is None:
        raise SandboxUnusable("prlimit is not installed: it is part of Debian's util-linux.")
    version = _version(program)
    if version < OLDEST:
        told = ".".join(map(str, version))
        raise SandboxUnusable(f"{program} is version {told}; the sandbox needs 0.8 or newer.")
    return program


def refusal(said: str) -> SandboxUnusable:
    """Why bubblewrap could not set up the sandbox, made of what it printed."""
    lines = [line for line in said.splitlines() if line.startswith("bwrap:")]
    fact = (lines or said.splitlines() or ["bwrap: no reason given"])[0].removeprefix("bwrap:")
    remedy = next((text for pattern, text in REMEDIES if re.search(pattern, fact)), "")
    return SandboxUnusable(f"bubblewrap cannot work here:{fact}. {remedy}".rstrip())


def _version(program: str) -> tuple[int, ...]:
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    numbers = re.search(r"(\d+)\.(\d+)", told.stdout)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
