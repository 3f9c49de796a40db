#!/usr/bin/python
"""Looks at one machine without changing it. Needs nothing but Python's standard library there."""

import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: host_probe
short_description: Look at a machine, and say what would keep it from being part of a cluster
description:
  - Reads what a preflight report and the facts of a Nomad client need. Changes nothing.
options:
  sections:
    description:
      - What to look at. C(gpu) is the graphics card; C(findings) also judges the machine.
    type: list
    elements: str
    choices: [gpu, findings]
    default: [gpu]
  folders:
    description: Folders that have to be writable, each with the free space in bytes that it needs.
    type: dict
    default: {}
  memory_bytes: {description: Memory that the machine should have., type: int, default: 0}
  ports:
    description: TCP ports that have to be free, each with the name of the program that may hold it.
    type: dict
    default: {}
  peers:
    description: Addresses that have to be reachable.
    type: list
    elements: str
    default: []
  mesh_address: {description: Address that has to be one of the machine., type: str, default: ""}
  mesh_ports: {description: Ports that jobs get., type: str, default: "20000-32000"}
  now: {description: Seconds since 1970 on the controller., type: float, default: 0}
  clock_tolerance: {description: Seconds that the clocks may differ., type: float, default: 30}
author: [Hearth]
attributes:
  check_mode: {support: full, description: Changes nothing.}
"""

EXAMPLES = """
- name: Probe the machine
  host_probe:
    sections: [gpu, findings]
    folders: {/var/lib: 20000000000}
    ports: {8500: consul}
"""

RETURN = """
gpu:
  description: C(vendor), C(name), C(backend) (cpu, cuda, rocm, vulkan), C(vram_mb).
  returned: always
  type: dict
findings:
  description:
    - One entry a check, with C(feature), C(state) (pass, warn, fail), C(evidence), C(remedy).
  returned: when asked for
  type: list
  elements: dict
"""

VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
SECTIONS = ["gpu", "findings"]
LIST = {"type": "list", "elements": "str"}
ARCHITECTURES = ("x86_64", "aarch64")


def probe_gpu(root=Path("/")):
    """The card with the most memory; `backend` is what its driver allows."""
    cards = [_card(device, root) for device in sorted(root.glob("sys/class/drm/card[0-9]/device"))]
    cards += _nvidia_cards()
    none = {"vendor": "none", "name": "", "backend": "cpu", "vram_mb": 0}
    usable = [card for card in cards if card is not None]
    return max(usable, key=lambda card: (card["backend"] != "cpu", card["vram_mb"]), default=none)


def _card(device, root):
    vendor = VENDORS.get(_text(device / "vendor"))
    if vendor is None or vendor == "nvidia":
        return None
    total = _text(device / "mem_info_vram_total")
    rocm = vendor == "amd" and (root / "dev/kfd").exists()
    renders = any((root / "dev/dri/by-path").glob("*-render"))
    return {
        "vendor": vendor,
        "name": _text(device / "device"),
        "backend": "rocm" if rocm else "vulkan" if renders else "cpu",
        "vram_mb": int(total) // 1024**2 if total.isdigit() else 0,
    }


def _nvidia_cards():
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        asked = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.rpartition(",") for line in asked.stdout.splitlines() if "," in line]
    return [
        {"vendor": "nvidia", "name": name.strip(), "backend": "cuda", "vram_mb": int(memory)}
        for name, _, memory in rows
        if memory.strip().isdigit()
    ]


def _text(file):
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def finding(feature, state, evidence, remedy=""):
    return {"feature": feature, "state": state, "evidence": evidence, "remedy": remedy}


def judge_architecture(machine):
    if machine in ARCHITECTURES:
        return finding("architecture", "pass", machine)
    return finding("architecture", "fail", machine, "Use a machine with x86_64 or aarch64.")


def judge_system(release):
    name = release.get("PRETTY_NAME", "unknown")
    if release.get("ID") == "debian" and int(release.get("VERSION_ID") or 0) >= 12:
        return finding("system", "pass", name)
    if "debian" in (release.get("ID"), *release.get("ID_LIKE", "").split()):
        return finding("system", "warn", name, "Hearth is shown on Debian 12; others may work.")
    return finding("system", "fail", name, "Install Debian 12.")


def judge_memory(total, wanted):
    evidence = f"{total / 1024**3:.1f} GiB"
    if total >= wanted:
        return finding("memory", "pass", evidence)
    need = f"{wanted / 1024**3:.1f} GiB"
    return finding("memory", "warn", evidence, f"Experts need {need}; small ones run here.")


def judge_folder(folder, wanted):
    """The nearest ancestor that exists has to be on a disk with room that can be written."""
    place = Path(folder)
    while not place.exists():
        place = place.parent
    disk = os.statvfs(place)
    free = disk.f_bavail * disk.f_frsize
    feature, evidence = f"disk {folder}", f"{free / 1000**3:.1f} GB free"
    if disk.f_flag & os.ST_RDONLY:
        remedy = f"Mount {place} writable: `mount -o remount,rw {place}`, and look at the disk."
        return finding(feature, "fail", "mounted read-only", remedy)
    if free < int(wanted):
        remedy = f"Free {(int(wanted) - free) / 1000**3:.1f} GB there, or mount a larger disk."
        return finding(feature, "fail", evidence, remedy)
    return finding(feature, "pass", evidence)


def judge_clock(here, there, tolerance):
    off = abs(here - there)
    if not there or off <= tolerance:
        return finding("clock", "pass", f"{off:.0f} s from the controller" if there else "unknown")
    remedy = "Set the clock (`timedatectl set-ntp true`): certificates are not valid otherwise."
    return finding("clock", "fail", f"{off:.0f} s from the controller", remedy)


def judge_port(port, owner, listeners):
    holder = listeners.get(int(port))
    if holder is None or owner in holder:
        return finding(f"port {port}", "pass", holder or "free")
    remedy = f"Stop {holder}, or give it another port: {owner} needs {port}."
    return finding(f"port {port}", "fail", f"held by {holder}", remedy)


def judge_port_range(local, mesh):
    low, high = (int(part) for part in mesh.split("-"))
    start, end = (int(part) for part in local.split())
    evidence = f"{start}-{end}"
    if start > high or end < low:
        return finding("ip_local_port_range", "pass", evidence)
    remedy = f"It takes ports of jobs ({mesh}); the role host sets it at boot and now."
    return finding("ip_local_port_range", "warn", evidence, remedy)


def judge_address(address, own):
    if not address or address in own:
        return finding("address", "pass", address)
    remedy = f"This machine has {', '.join(sorted(own))}: set mesh_address in its host_vars."
    return finding("address", "fail", f"{address} is not one of this machine", remedy)


def judge_peer(address):
    """A refused connection is an answer, too."""
    try:
        with socket.create_connection((address, 22), timeout=3):
            pass
    except ConnectionRefusedError:
        pass
    except OSError as error:
        remedy = f"Check cable, switch and firewall between here and {address}."
        return finding(f"network {address}", "fail", str(error), remedy)
    return finding(f"network {address}", "pass", "reached")


def judge_packages(locked):
    if not locked:
        return finding("apt", "pass", "free")
    remedy = "Wait until it ends, or stop it: the run waits five minutes for it, then fails."
    return finding("apt", "warn", "another program installs packages", remedy)


def judge_passwordless(files):
    if not files:
        return finding("sudo", "pass", "asks for a password")
    remedy = "Set host_remove_passwordless_sudo: true, once your user has a password."
    return finding("sudo", "warn", f"NOPASSWD in {', '.join(files)}", remedy)


def judge_gpu(gpu):
    if gpu["backend"] != "cpu":
        evidence = f"{gpu['vendor']} {gpu['name']}, {gpu['vram_mb']} MB: {gpu['backend']}"
        return finding("gpu", "pass", evidence)
    if gpu["vendor"] == "none":
        return finding("gpu", "pass", "none: models run on the processor")
    return finding(
        "gpu", "warn", gpu["vendor"], "Install its driver; the processor works until then."
    )


def listeners():
    """TCP port -> name of the program that listens, of the process where it can be seen."""
    asked = subprocess.run(
        ["ss", "-Hltnp"], capture_output=True, text=True, timeout=20, check=False
    ).stdout
    found = {}
    for line in asked.splitlines():
        fields = line.split()
        port = fields[3].rpartition(":")[2]
        found[int(port)] = fields[5].split('"')[1] if len(fields) > 5 else "another program"
    return found


def own_addresses():
    asked = subprocess.run(
        ["ip", "-json", "address"], capture_output=True, text=True, timeout=20, check=False
    ).stdout
    return {a["local"] for link in json.loads(asked or "[]") for a in link.get("addr_info", [])}


def passwordless_files(folder=Path("/etc/sudoers.d")):
    try:
        files = [Path("/etc/sudoers"), *sorted(folder.iterdir())]
    except OSError:
        return []
    return [str(f) for f in files if any(_frees(line) for line in _text(f).splitlines())]


def _frees(line):
    return "NOPASSWD" in line and not line.lstrip().startswith("#")


def apt_is_locked(path="/var/lib/dpkg/lock-frontend"):
    try:
        device = Path(path).stat()
    except OSError:
        return False
    mark = f":{device.st_ino} "
    return any(mark in line and "WRITE" in line for line in _text(Path("/proc/locks")).splitlines())


def memory_total():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def system_release():
    rows = (line.partition("=") for line in _text(Path("/etc/os-release")).splitlines())
    return {name: value.strip('"') for name, _, value in rows}


def judge(params, gpu):
    held = listeners()
    local = _text(Path("/proc/sys/net/ipv4/ip_local_port_range"))
    return [
        judge_architecture(os.uname().machine),
        judge_system(system_release()),
        judge_memory(memory_total(), params["memory_bytes"]),
        *[judge_folder(folder, wanted) for folder, wanted in params["folders"].items()],
        judge_clock(time.time(), params["now"], params["clock_tolerance"]),
        judge_address(params["mesh_address"], own_addresses()),
        *[judge_peer(address) for address in params["peers"]],
        *[judge_port(port, owner, held) for port, owner in params["ports"].items()],
        *([judge_port_range(local, params["mesh_ports"])] if local else []),
        judge_packages(apt_is_locked()),
        judge_passwordless(passwordless_files()),
        judge_gpu(gpu),
    ]


def main():
    module = AnsibleModule(
        argument_spec={
            "sections": {**LIST, "default": ["gpu"], "choices": SECTIONS},
            "folders": {"type": "dict", "default": {}},
            "memory_bytes": {"type": "int", "default": 0},
            "ports": {"type": "dict", "default": {}},
            "peers": {**LIST, "default": []},
            "mesh_address": {"type": "str", "default": ""},
            "mesh_ports": {"type": "str", "default": "20000-32000"},
            "now": {"type": "float", "default": 0},
            "clock_tolerance": {"type": "float", "default": 30},
        },
        supports_check_mode=True,
    )  # fmt: skip
    gpu = probe_gpu()
    asked = "findings" in module.params["sections"]
    module.exit_json(changed=False, gpu=gpu, findings=judge(module.params, gpu) if asked else [])


if __name__ == "__main__":
    main()
