"""Everything that a lab could leave on the machine, to compare before and after."""

import subprocess
from pathlib import Path

import psutil

from hearth.cgroup import hierarchies

Traces = dict[str, set[str]]


def traces(name: str) -> Traces:
    """Mounts, namespaces, links, processes, control groups and files that bear the lab's name."""
    return {
        "mounts": _naming(name, Path("/proc/self/mountinfo").read_text("utf-8").splitlines()),
        "namespaces": _naming(name, [str(path) for path in Path("/run/netns").glob("*")]),
        "links": _naming(name, _said("ip", "-oneline", "link")),
        "processes": _naming(name, _command_lines()),
        "groups": _naming(name, [str(p) for h in hierarchies() for p in h.glob("hearth*/**")]),
        "files": _naming(name, [str(path) for path in Path("/run/systemd/nspawn").rglob("*")]),
    }


def locks() -> set[str]:
    """The locks of systemd-nspawn, which bear numbers."""
    return {path.name for path in Path("/run/systemd/nspawn/locks").glob("*")}


def nothing() -> Traces:
    """What a lab leaves."""
    kinds = ("mounts", "namespaces", "links", "processes", "groups", "files")
    return {kind: set() for kind in kinds}


def _naming(name: str, lines: list[str]) -> set[str]:
    return {line for line in lines if name in line}


def _command_lines() -> list[str]:
    return [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]


def _said(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
