"""The programs of the controller that make a lab."""

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
"""Program -> the Debian package that brings it."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"
NAMESPACES = Path("/run/netns")
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
ENOUGH_INOTIFY = 8192
"""A host's systemd and its services hold some ten instances; Linux allows root 128 in all."""


def check() -> None:
    """Raise `NotRoot`, `PackagesMissing` or `NoNamespaces` where a lab cannot be made."""
    if os.geteuid() != 0:
        raise NotRoot
    if missing := missing_packages():
        raise PackagesMissing(missing)
    trial = ["unshare", "--mount", "--net", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if subprocess.run(trial, capture_output=True, check=False).returncode != 0:
        raise NoNamespaces


def make_room_for_hosts() -> None:
    """Let as many hosts run as there is memory for: raises the kernel's limit on inotify."""
    if int(INOTIFY.read_text(encoding="ascii")) < ENOUGH_INOTIFY:
        INOTIFY.write_text(str(ENOUGH_INOTIFY), encoding="ascii")


def missing_packages() -> list[str]:
    """The Debian packages that a lab needs and this machine lacks."""
    missing = [package for program, package in PACKAGES.items() if not found(program)]
    if not KEYRING.exists():
        missing.append("debian-archive-keyring")
    return list(dict.fromkeys(missing))


def found(program: str) -> str | None:
    """The program's path, also where root's PATH lacks the folders of the system."""
    return shutil.which(program) or shutil.which(program, path=SYSTEM)


def run(*command: str | Path, input_: str | None = None, log: Path | None = None) -> str:
    """What the program prints; `ProgramFailed` with the end of it when it fails.

    `log` keeps all that a long program says, as it says it.
    """
    words = _words(command)
    if log is not None:
        with log.open("wb") as output:
            ended = subprocess.run(words, stdout=output, stderr=output, check=False)
        said, code = log.read_text(errors="replace"), ended.returncode
    else:
        done = subprocess.run(
            words, capture_output=True, text=True, input=input_, check=False, errors="replace"
        )
        said, code = done.stdout + (done.stderr if done.returncode else ""), done.returncode
    if code:
        raise ProgramFailed([str(word) for word in command], code, said)
    return said


def start(command: Sequence[str | Path], *, output: Path, pid_file: Path | None = None) -> None:
    """Start a program that outlives us, in a session of its own and as nobody's child.

    What it says is added to `output`; `pid_file` has its process id before it runs.
    """
    words = _words(command)
    if pid_file is not None:
        words = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(pid_file), *words]
    with output.open("ab") as said:
        subprocess.run(
            ["setsid", "--fork", *words],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", check=True,
        )  # fmt: skip


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, and nothing that is mounted there."""
    run("rm", "--recursive", "--force", "--one-file-system", folder)


def inside(namespace: str, command: Sequence[str]) -> list[str]:
    """The command line that runs `command` in that network namespace, and changes nothing else."""
    return ["nsenter", f"--net={NAMESPACES / namespace}", "--", *command]


def _words(command: Sequence[str | Path]) -> list[str]:
    return [found(str(command[0])) or str(command[0]), *map(str, command[1:])]
