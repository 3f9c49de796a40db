"""Reasons to stay awake that only the machine itself can see: persons, programs that forbid sleep,
and foreign programs on its graphics card.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

LOGIND: Final = (
    "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager",
)  # fmt: skip
SESSION: Final = "org.freedesktop.login1.Session"

GPU_DEVICES: Final = ("/dev/nvidia[0-9]*", "/dev/dri/renderD*", "/dev/kfd")
"""Files that a program has open while it computes or draws on a graphics card."""

FIRST_PERSON: Final = 1000
"""The lowest user id of a person on Debian; a login screen has a lower one."""

MANAGED: Final = re.compile(r"/nomad[./]")
"""In the control group of a program that Nomad runs."""


class NoLogind(Exception):
    """systemd-logind does not answer, so the users of the machine are not known."""


def persons() -> str:
    """Return the logged-in persons, in one sentence; an empty text if there are none.

    Raises `NoLogind`.
    """
    names = []
    for _, _, name, _, path in _call("ListSessions"):
        if _property(path, "Class") == "user" and _property(path, "State") != "closing":
            names.append(name)
    if not names:
        return ""
    listed = ", ".join(sorted(set(names)))
    return f"{listed} {'is' if len(set(names)) == 1 else 'are'} logged in."


def inhibitors() -> str:
    """Return what forbids that the machine sleeps (systemd-inhibit), in one sentence.

    Raises `NoLogind`.
    """
    for what, who, why, mode, *_ in _call("ListInhibitors"):
        if mode == "block" and {"sleep", "shutdown", "idle"} & set(what.split(":")):
            return f"{who} keeps it awake: {why}."
    return ""


def gpu_programs(*, proc: Path = Path("/proc"), devices: Sequence[str] = GPU_DEVICES) -> str:
    """Return the programs of persons, such as games, that use the graphics card, in one sentence.

    Args:
        proc: The file system with the processes.
        devices: Patterns of the paths of graphics cards.
    """
    names = sorted({_user_of(one, devices) for one in _processes(proc)} - {""})
    if not names:
        return ""
    return f"{', '.join(names)} {'uses' if len(names) == 1 else 'use'} the graphics card."


def _processes(proc: Path) -> Iterator[Path]:
    return (path for path in proc.iterdir() if path.name.isdecimal())


def _user_of(process: Path, devices: Sequence[str]) -> str:
    """Return the name of a process that is a person's and has such a device open, or nothing."""
    try:
        if process.stat().st_uid < FIRST_PERSON:
            return ""
        if MANAGED.search((process / "cgroup").read_text(encoding="utf-8")):
            return ""
        for file in (process / "fd").iterdir():
            if any(fnmatch(str(file.readlink()), device) for device in devices):
                return (process / "comm").read_text(encoding="utf-8").strip()
    except (FileNotFoundError, ProcessLookupError):  # It has just ended.
        pass
    return ""


def _call(method: str) -> list[list[Any]]:
    found: list[list[Any]] = _busctl("call", *LOGIND, method)[0]
    return found


def _property(path: str, name: str) -> str:
    try:
        return str(_busctl("get-property", LOGIND[0], path, SESSION, name))
    except NoLogind as error:
        if "Unknown object" not in str(error):
            raise
        return ""  # The session has just ended.


def _busctl(*words: str) -> Any:
    command = ["busctl", "--system", "--json=short", *words]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoLogind(str(error)) from error
    if ended.returncode:
        raise NoLogind(ended.stderr.strip())
    return json.loads(ended.stdout)["data"]
