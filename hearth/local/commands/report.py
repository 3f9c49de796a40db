"""`hearth doctor --report`: facts for the report of a bug with a graphics card, no secrets."""

import getpass
import grp
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from hearth.local.commands.doctor import Finding
from hearth.service.state import StateDir

LOG_LINES: Final = 60
SECONDS: Final = 20
DEVICES: Final = ("dri/card*", "dri/render*", "kfd", "nvidia*")
PROGRAMS: Final = (
    ("lspci", "-nnk", "-d", "::0300"),
    ("lspci", "-nnk", "-d", "::0302"),
    ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv"),
    ("rocminfo",),
    ("vulkaninfo", "--summary"),
)
PACKAGES: Final = (
    "firmware-amd-graphics", "hipcc", "libcublas*", "libcudart*", "libvulkan1", "linux-image-*",
    "mesa-vulkan-drivers", "nvidia-driver", "rocm*",
)  # fmt: skip
KERNEL: Final = re.compile(r"amdgpu|i915|kfd|nouveau|nvidia|NVRM|\bxe\b")
HIDDEN: Final = "[hidden]"
SECRETS: Final = (
    re.compile(r"sk-[A-Za-z0-9_-]{8,}"),
    re.compile(r"(?i)(?<=bearer )\S+"),
    re.compile(r"(?i)(?<=basic )\S+"),
    re.compile(
        r"(?i)\w*(?:token|secret|password|passwd|api_?key)[\"']?\s*[=:]\s*[\"']?"
        r"(?P<value>[^\s\"',}]+)"
    ),
    re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"),
    re.compile(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----"),
    re.compile(r"(?<=://)[^\s/@]+:[^\s/@]+(?=@)"),
)
"""Keys of any service, values of settings that are named like secrets, tokens, private keys, and
passwords in addresses."""


def report(state: StateDir, findings: Iterable[Finding], engines: Path) -> str:
    """Return the report as Markdown. `engines`: the folder with the compiled engines."""
    sections: list[tuple[str, Callable[[], Iterable[str]]]] = [
        ("Checks", lambda: _findings(findings)),
        ("System", _system),
        ("Graphics cards", _cards),
        ("Devices", _devices),
        ("Packages", _packages),
        ("Engines", lambda: _engines(engines)),
        ("Kernel", _kernel),
        ("Expert", lambda: _logs(state.logs)),
    ]
    parts = ["# Report of hearth doctor\n"]
    for title, lines in sections:
        text = "\n".join(lines()) or "nothing"
        parts.append(f"## {title}\n\n```text\n{text}\n```\n")
    return redacted("\n".join(parts), state)


def redacted(text: str, state: StateDir) -> str:
    """Return the text without secrets, and without the names of its user and machine."""
    for file in (state.key_file, state.service_key_file):
        if file.is_file():
            text = text.replace(file.read_text(encoding="utf-8").strip(), HIDDEN)
    for pattern in SECRETS:
        text = pattern.sub(_hidden, text)
    home = str(Path.home())
    text = text.replace(home, "~") if home not in {"/", ""} else text
    for name, shown in ((platform.node(), "HOST"), (getpass.getuser(), "USER")):
        if name and name != "root":
            text = re.sub(rf"\b{re.escape(name)}\b", shown, text)
    return text


def _hidden(match: re.Match[str]) -> str:
    value = match.groupdict().get("value")
    return match[0].replace(value, HIDDEN) if value else HIDDEN


def _findings(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"{finding.verdict} {finding.subject}: {finding.fact} {finding.remedy}".rstrip()


def _system() -> Iterator[str]:
    yield from _matching(Path("/etc/os-release"), "PRETTY_NAME")
    yield f"{platform.system()} {platform.release()} {platform.machine()}"
    yield from list(_matching(Path("/proc/cpuinfo"), "model name", "flags"))[:2]
    yield from _matching(Path("/proc/meminfo"), "MemTotal")


def _cards() -> Iterator[str]:
    for card in sorted(Path("/sys/class/drm").glob("card[0-9]/device")):
        driver = (card / "driver").resolve().name if (card / "driver").exists() else "no driver"
        named = [_text(card / name).strip() for name in ("vendor", "device")]
        vram = _text(card / "mem_info_vram_total").strip()
        yield f"{card.parent.name}: {':'.join(named)} {driver} {vram}".rstrip()
    for command in PROGRAMS:
        yield from _ran(*command)


def _devices() -> Iterator[str]:
    groups = sorted(_group(gid) for gid in os.getgroups())
    yield f"groups of this user: {', '.join(groups)}"
    for node in sorted(node for pattern in DEVICES for node in Path("/dev").glob(pattern)):
        known = node.stat()
        opens = os.access(node, os.R_OK | os.W_OK)
        mode = oct(known.st_mode & 0o777).removeprefix("0o")
        yield f"{node} {mode} {_group(known.st_gid)} {'opens' if opens else 'does not open'}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _packages() -> Iterator[str]:
    shown = "--showformat=${db:Status-Abbrev} ${Package} ${Version}\n"
    for line in _output("dpkg-query", "--show", shown, *PACKAGES):
        if line.startswith("ii"):
            yield line.removeprefix("ii").strip()


def _engines(folder: Path) -> Iterator[str]:
    for current in sorted(folder.glob("*/current")):
        yield f"{current.parent.name}: {current.resolve().name}"
        for program in sorted(current.glob("bin/llama-server")):
            yield from _ran(str(program), "--version")
            yield from _ran(str(program), "--list-devices")


def _kernel() -> list[str]:
    return [line for line in _output("dmesg") if KERNEL.search(line)][-LOG_LINES:]


def _logs(folder: Path) -> Iterator[str]:
    for file in sorted(folder.glob("llama-*.log")):
        yield from _text(file).splitlines()[-LOG_LINES:]


def _matching(file: Path, *names: str) -> Iterator[str]:
    yield from (line for line in _text(file).splitlines() if line.startswith(names))


def _ran(*command: str) -> Iterator[str]:
    lines = _output(*command)
    if lines:
        yield f"$ {' '.join(command)}"
        yield from lines


def _output(*command: str) -> list[str]:
    """Return the lines that a program prints, or why it did not; none where there is none."""
    if shutil.which(command[0]) is None:
        return []
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"{command[0]}: {error}"]
    return (ended.stdout or ended.stderr).splitlines()


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
