"""Checks that an instance must pass before it starts."""

import errno
import os
import pwd
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile

import psutil

from hearth.local.errors import DiskFull, PortTaken, StateUnusable
from hearth.service.names import PORT_OFFSETS

NEEDED_BYTES = 64 << 20
"""Free space for ledger, logs and backups; that for models is checked separately."""

HIGHEST_PORT_BASE = 65000


def make_usable(root: Path) -> None:
    """Create a missing state directory, with mode 0700, and check that it is writable.

    Raises `DiskFull` and `StateUnusable`.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=root) as file:
            file.write(b"\0" * 4096)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(root) from error
        raise StateUnusable(root, _why_unusable(root, error)) from error


def no_sandbox() -> tuple[str, str] | None:
    """Return why the sandbox does not work here, and the remedy; None if it works."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed", "Run `apt-get install bubblewrap` as root."
    words = ["--unshare-user", "--unshare-all", "--disable-userns", "--ro-bind", "/", "/"]
    tried = subprocess.run(
        [program, *words, "--", "true"], capture_output=True, text=True, check=False
    )
    if tried.returncode == 0:
        return None
    reason = (tried.stderr.strip().splitlines() or ["it gives no reason"])[0]
    return (
        f"bubblewrap does not work here ({reason.removeprefix('bwrap: ')})",
        "It needs version 0.8 and a system that allows user namespaces: on Ubuntu an AppArmor "
        "profile for bwrap, on older Debian `sysctl kernel.unprivileged_userns_clone=1`.",
    )


def sandbox_mode() -> str:
    """Return how the memory of programs is limited here: `cgroup`, `watched`, or empty if unknown.

    The sandbox belongs to the package of the agent, so it is run as a program, not imported.
    """
    command = [sys.executable, "-m", "pipecatapp.sandbox.program_group"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.stdout.strip()


def check_room(root: Path) -> None:
    """Raise `DiskFull` unless `NEEDED_BYTES` are free."""
    if shutil.disk_usage(root).free < NEEDED_BYTES:
        raise disk_full(root)


def disk_full(root: Path) -> DiskFull:
    """Return the error with the size and the free space of the disk of this directory."""
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    return DiskFull(root, free=shutil.disk_usage(existing).free, needed=NEEDED_BYTES)


def check_ports(ports: Mapping[str, int], port_base: int) -> None:
    """Raise `PortTaken` for the first service whose port is not free."""
    for service, port in ports.items():
        if not is_free(port):
            raise PortTaken(
                port, service, holder=port_holder(port), free_base=_free_base(port_base)
            )


def is_free(port: int) -> bool:
    """Return whether a server can listen on this port of 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set it, too: otherwise closed connections would block the port for a minute.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def port_holder(port: int) -> str:
    """Describe the process that listens on a port, if it is visible: `nginx (pid 712)`."""
    try:
        listening = [
            connection
            for connection in psutil.net_connections(kind="tcp")
            if connection.status == psutil.CONN_LISTEN
            and connection.laddr
            and connection.laddr.port == port
        ]
    except psutil.Error:
        listening = []
    for connection in listening:
        if connection.pid is not None:
            return _process(connection.pid)
    return "another program" if os.geteuid() == 0 else "a program of another user"


def _process(pid: int) -> str:
    try:
        return f"{psutil.Process(pid).name()} (pid {pid})"
    except psutil.Error:
        return f"pid {pid}"


def _free_base(port_base: int) -> int | None:
    """Return the next port base, in steps of 100, whose ports are all free."""
    for base in range(port_base + 100, HIGHEST_PORT_BASE, 100):
        if all(is_free(base + offset) for offset in PORT_OFFSETS.values()):
            return base
    return None


def _why_unusable(root: Path, error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    if isinstance(error, PermissionError) and root.exists():
        return f"{reason} for {_user(os.geteuid())}; it belongs to {_user(root.stat().st_uid)}"
    if error.filename and Path(error.filename) != root and not root.exists():
        return f"{reason}: {error.filename}"
    return reason


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
