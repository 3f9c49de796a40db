"""Run the programs of this machine that a lab needs."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hearth.lab.errors import NoNamespaces, NotRoot, PackagesMissing, ProgramFailed

PACKAGES = {
    "debootstrap": "debootstrap",
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "socat": "socat",
    "apt-cacher-ng": "apt-cacher-ng",
}
"""Program -> the Debian package that contains it."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"
NAMESPACES = Path("/run/netns")
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
ENOUGH_INOTIFY = 8192
"""A host's systemd and services use about ten instances; the default limit of root is 128."""


def check() -> None:
    """Raise `NotRoot`, `PackagesMissing` or `NoNamespaces` if this machine cannot run a lab."""
    if os.geteuid() != 0:
        raise NotRoot
    if missing := missing_packages():
        raise PackagesMissing(missing)
    trial = ["unshare", "--mount", "--net", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if subprocess.run(trial, capture_output=True, check=False).returncode != 0:
        raise NoNamespaces


def raise_inotify_limit() -> None:
    """Raise the kernel's limit of inotify instances, so that memory alone limits the hosts."""
    if int(INOTIFY.read_text(encoding="ascii")) < ENOUGH_INOTIFY:
        INOTIFY.write_text(str(ENOUGH_INOTIFY), encoding="ascii")


def missing_packages() -> list[str]:
    """Return the Debian packages that a lab needs and that are not installed."""
    missing = [package for program, package in PACKAGES.items() if not found(program)]
    if not KEYRING.exists():
        missing.append("debian-archive-keyring")
    return list(dict.fromkeys(missing))


def found(program: str) -> str | None:
    """Return the path of a program, or None; also searches `SYSTEM`, which PATH may lack."""
    return shutil.which(program) or shutil.which(program, path=SYSTEM)


def run(*command: str | Path, input_: str | None = None, log: Path | None = None) -> str:
    """Run a program and return its standard output.

    Args:
        command: The program and its arguments.
        input_: Text for its standard input.
        log: File that receives both outputs while the program runs; it is then also the result.

    Raises:
        ProgramFailed: Its exit code is not 0; the message ends with the output.
    """
    words = _words(command)
    if log is not None:
        with log.open("wb") as file:
            code = subprocess.run(words, stdout=file, stderr=file, check=False).returncode
        output = log.read_text(errors="replace")
    else:
        ended = subprocess.run(
            words, capture_output=True, text=True, input=input_, check=False, errors="replace"
        )
        code = ended.returncode
        output = ended.stdout + (ended.stderr if code else "")
    if code:
        raise ProgramFailed([str(word) for word in command], code, output)
    return output


def start(command: Sequence[str | Path], *, output: Path, pid_file: Path | None = None) -> None:
    """Start a daemon: in a new session, without a parent, it outlives this process.

    Its output is appended to `output`. Its process id is written to `pid_file` before it runs.
    """
    words = _words(command)
    if pid_file is not None:
        words = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(pid_file), *words]
    with output.open("ab") as file:
        subprocess.run(
            ["setsid", "--fork", *words],
            stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd="/", check=True,
        )  # fmt: skip


def remove(folder: Path) -> None:
    """Remove a folder and its content, except file systems that are mounted below it."""
    run("rm", "--recursive", "--force", "--one-file-system", folder)


def inside(namespace: str, command: Sequence[str]) -> list[str]:
    """Return the command line that runs `command` in a network namespace."""
    return ["nsenter", f"--net={NAMESPACES / namespace}", "--", *command]


def _words(command: Sequence[str | Path]) -> list[str]:
    return [found(str(command[0])) or str(command[0]), *map(str, command[1:])]
