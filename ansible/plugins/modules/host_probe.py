#!/usr/bin/python
"""Looks at one machine without changing it. Needs nothing but Python's standard library there."""

import hashlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: host_probe
short_description: Look at a machine, and say what would keep it from being part of a cluster
description:
  - Reads what a preflight report and the facts of a Nomad client need. Changes nothing.
options:
  sections:
    description:
      - What to look at. C(gpu) is the graphics card; C(findings) checks the machine; C(sources)
        checks O(sources) and O(folders) alone, as on the controller.
    type: list
    elements: str
    choices: [gpu, findings, sources]
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
  cpu_flags:
    description: Instructions of the processor that the engines use, as in C(/proc/cpuinfo).
    type: list
    elements: str
    default: []
  cpu_variants:
    description:
      - Variants of the engines for generations of processors, the fastest last. Each has C(name)
        and the C(flags) that it needs. The engines choose one when they start.
    type: list
    elements: dict
    default: []
  backend:
    description: What the engines compute with.
    type: str
    choices: [cpu, cuda, rocm, vulkan]
    default: cpu
  device_user:
    description: User that opens the devices of the graphics card.
    type: str
    default: ""
  device_groups:
    description: Groups that this user gets, where they exist.
    type: list
    elements: str
    default: []
  packages:
    description: Debian packages to be installed, each with its oldest usable version or C("").
    type: dict
    default: {}
  components:
    description: Components of Debian's archive that the run will enable.
    type: list
    elements: str
    default: []
  mirrors_unless:
    description:
      - Check that the machine's package mirrors, or its proxy for packages, answer, unless this
        file is there. Empty is no check.
    type: str
    default: ""
  reserved_address:
    description: The router always gives the machine the same address.
    type: bool
    default: false
  sources:
    description:
      - Files that have to be there, or else be available at an address. Each has C(feature),
        C(file) (a pattern; may be empty), C(sha256) and C(url) (may be empty) and C(remedy).
    type: list
    elements: dict
    default: []
  wanted:
    description: Patterns of files by name; the names of those that match nothing are returned.
    type: dict
    default: {}
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
missing:
  description: Names of O(wanted) whose pattern matches no file.
  returned: always
  type: list
  elements: str
"""

VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
SECTIONS = ["gpu", "findings", "sources"]
BACKENDS = ["cpu", "cuda", "rocm", "vulkan"]
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
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def finding(feature, state, evidence, remedy=""):
    return {"feature": feature, "state": state, "evidence": evidence, "remedy": remedy}


def judge_architecture(machine):
    if machine in ARCHITECTURES:
        return finding("architecture", "pass", machine)
    return finding("architecture", "fail", machine, "Use a machine with x86_64 or aarch64.")


SYSTEMS = {"debian": ("12", "13"), "ubuntu": ("24.04",)}


def judge_system(release):
    name, version = release.get("PRETTY_NAME", "unknown"), release.get("VERSION_ID", "")
    if version in SYSTEMS.get(release.get("ID"), ()):
        return finding("system", "pass", name)
    remedy = "Hearth is tested on Debian 12, Debian 13 and Ubuntu 24.04; others may work."
    if "debian" in (release.get("ID"), *release.get("ID_LIKE", "").split()):
        return finding("system", "warn", name, remedy)
    return finding("system", "fail", name, "Install Debian 12 or 13, or Ubuntu 24.04.")


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


def judge_processor(flags, wanted, variants):
    """The processor has to run one of the variants, or else have all instructions of one build."""
    usable = [one["name"] for one in variants if set(one["flags"]) <= set(flags)]
    if usable:
        return finding("processor", "pass", f"engines use their variant {usable[-1]}")
    lacking = sorted(set(variants[0]["flags"] if variants else wanted) - set(flags))
    if not lacking:
        return finding("processor", "pass", "has the instructions of the engines")
    remedy = (
        "Set llama_cpp_cpu_variants: true for the cluster, which compiles the engines for every"
        " generation of processors, or take the machine out of the inventory."
    )
    return finding("processor", "fail", f"lacks {', '.join(lacking)}", remedy)


NODES = {
    "cuda": ["dev/nvidiactl"],
    "rocm": ["dev/kfd", "dev/dri/render*"],
    "vulkan": ["dev/dri/render*"],
}
DRIVERS = {
    "cuda": "Install NVIDIA's driver (Debian: nvidia-driver, of non-free) and restart the machine",
    "rocm": "Install the firmware of AMD's card (Debian: firmware-amd-graphics) and restart",
    "vulkan": "Install the driver or firmware of the graphics card and restart the machine",
}


def judge_devices(backend, user, groups, root=Path("/")):
    """The devices of the engines' backend have to be there, and open for the services' user."""
    findings = []
    for pattern in NODES.get(backend, []):
        nodes = sorted(root.glob(pattern))
        feature = f"device /{pattern}"
        if not nodes:
            remedy = f"{DRIVERS[backend]}, or set llama_cpp_backend: cpu for it."
            findings.append(finding(feature, "fail", "missing", remedy))
        elif not any(opens(node, user, groups) for node in nodes):
            node = nodes[0]
            remedy = f"Let its group use it: `chgrp render {node} && chmod 660 {node}`."
            evidence = f"{node} cannot be opened by {user}"
            findings.append(finding(feature, "fail", evidence, remedy))
        else:
            findings.append(finding(feature, "pass", f"opens for {user}"))
    return findings


def opens(node, user, groups):
    """Whether the user may read and write it once it is in these groups, of those that exist.

    Before the first run there is no such user; then nobody's rights are those to go by.
    """
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        entry = pwd.getpwnam("nobody")
    rights = {}
    if os.getuid() == 0:
        extra = os.getgrouplist(entry.pw_name, entry.pw_gid) + group_ids(groups)
        rights = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": sorted(set(extra))}
    ended = subprocess.run(
        ["/bin/sh", "-c", ': 3<>"$1"', "sh", str(node)],
        capture_output=True, timeout=20, check=False, **rights,
    )  # fmt: skip
    return ended.returncode == 0


def group_ids(names, path=Path("/etc/group")):
    rows = [line.split(":") for line in _text(path).splitlines()]
    return [int(row[2]) for row in rows if row[0] in names and len(row) > 2]


def judge_package(name, oldest, candidate, components):
    """`candidate`: the version that apt would install; None while its lists were never read."""
    feature = f"package {name}"
    if candidate is None:
        return finding(feature, "pass", "unknown until apt has read its lists")
    if not candidate:
        if components:
            evidence = f"expected in {', '.join(components)}, which the run enables"
            return finding(feature, "pass", evidence)
        remedy = "Enable the component that has it (host_apt_components: [contrib, non-free])."
        return finding(feature, "fail", "not in the package lists of the machine", remedy)
    if oldest and not is_at_least(candidate, oldest):
        remedy = (
            f"The engine needs {oldest}: use a newer release of the system, another"
            " llama_cpp_backend (vulkan, cpu), or the vendor's own packages."
        )
        return finding(feature, "fail", f"version {candidate}", remedy)
    return finding(feature, "pass", candidate)


def is_at_least(version, oldest):
    compared = ["dpkg", "--compare-versions", version, "ge", oldest]
    return subprocess.run(compared, check=False, timeout=20).returncode == 0


def candidates(names):
    """Package -> the version that apt would install, "" without one; None without any lists."""
    if not names:
        return {}
    if not any(Path("/var/lib/apt/lists").glob("*_Packages*")):
        return dict.fromkeys(names)
    asked = subprocess.run(
        ["apt-cache", "policy", *names],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "LC_ALL": "C"},
    ).stdout  # fmt: skip
    found, name = dict.fromkeys(names, ""), ""
    for line in asked.splitlines():
        if not line.startswith(" "):
            name = line.strip().rstrip(":")
        elif line.strip().startswith("Candidate:") and "(none)" not in line:
            found[name] = line.partition(":")[2].strip()
    return found


def package_hosts(unless):
    """Host and port of apt's proxy, or else of its mirrors; none where the file `unless` exists."""
    if not unless or Path(unless).exists():
        return []
    dumped = subprocess.run(
        ["apt-config", "dump"], capture_output=True, text=True, timeout=20, check=False
    ).stdout
    proxies = [
        line.split('"')[1]
        for line in dumped.splitlines()
        if line.lower().startswith(("acquire::http::proxy ", "acquire::https::proxy "))
    ]
    asked = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
    sites = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False).stdout
    addresses = [url for url in proxies if "://" in url] or sites.split()
    return sorted({address for address in map(host_and_port, addresses) if address})


def host_and_port(address):
    parsed = urlsplit(address)
    if not parsed.hostname:
        return None
    return parsed.hostname, parsed.port or (443 if parsed.scheme == "https" else 80)


def judge_mirror(host, port):
    feature = f"packages from {host}:{port}"
    try:
        with socket.create_connection((host, port), timeout=5):
            return finding(feature, "pass", "answers")
    except OSError as error:
        remedy = "Check the network, and apt's sources and proxy (`apt-config dump`)."
        return finding(feature, "fail", f"no answer ({error.strerror or error})", remedy)


def judge_source(source):
    """A file that is there, with the right checksum, or an address where it can be fetched."""
    feature, remedy = source["feature"], source["remedy"]
    url, sha256 = source.get("url") or "", source.get("sha256") or ""
    found = matches(source.get("file") or "")
    if found and (not sha256 or any(digest(file) == sha256 for file in found)):
        return finding(feature, "pass", str(found[0]))
    # What has another checksum is fetched again.
    if found and not url:
        return finding(feature, "fail", f"{found[0]} has another checksum", remedy)
    if not url:
        return finding(feature, "fail", f"there is no {source.get('file')}", remedy)
    refused = unreachable(url)
    if refused:
        return finding(feature, "fail", f"{url} cannot be fetched ({refused})", remedy)
    return finding(feature, "pass", f"available at {url}")


def matches(pattern):
    """The files of an absolute pattern; none without one."""
    return sorted(Path("/").glob(pattern.lstrip("/"))) if pattern.strip("/") else []


def digest(file):
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def unreachable(url):
    """Why an address cannot be fetched; empty if it can. Nothing but its header is read."""
    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=15):
            return ""
    except urllib.error.HTTPError as error:
        # 405: a server that answers only to GET.
        return "" if error.code == 405 else f"HTTP {error.code}"
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        return getattr(reason, "strerror", None) or str(reason)


def judge_links(links):
    """`links`: (name, is wireless) of the network interfaces that are connected."""
    names = ", ".join(name for name, _ in links)
    if links and all(wireless for _, wireless in links):
        remedy = "Use a cable: on Wi-Fi, servers lose each other and models take long to copy."
        return finding("link", "warn", f"Wi-Fi only ({names})", remedy)
    return finding("link", "pass", names or "no interface of hardware")


def physical_links(root=Path("/")):
    found = []
    for link in sorted(root.glob("sys/class/net/*")):
        if (link / "device").exists() and _text(link / "operstate") == "up":
            found.append((link.name, (link / "wireless").exists() or (link / "phy80211").exists()))
    return found


def judge_lease(address, leased, reserved):
    """`leased`: the addresses of the machine that end by themselves."""
    if address not in leased or reserved:
        return finding("lease", "pass", "the address stays")
    remedy = (
        f"Reserve {address} for this machine in your router, then set"
        " preflight_checks_reserved_address: true."
    )
    return finding("lease", "warn", f"{address} comes from DHCP and may change", remedy)


def leased_addresses():
    return {a["local"] for a in _addresses() if a.get("family") == "inet" and a.get("dynamic")}


def listeners():
    """TCP port -> name of the program that listens, of the process where it can be seen.

    A program that Nomad started is `nomad (NAME)`.
    """
    asked = subprocess.run(
        ["ss", "-Hltnp"], capture_output=True, text=True, timeout=20, check=False
    ).stdout
    found = {}
    for line in asked.splitlines():
        fields = line.split()
        port = fields[3].rpartition(":")[2]
        found[int(port)] = holder(fields[5]) if len(fields) > 5 else "another program"
    return found


def holder(shown):
    """Name the process of `users:(("name",pid=1,fd=2))`, as `ss` shows it."""
    name = shown.split('"')[1]
    pid = shown.partition("pid=")[2].partition(",")[0]
    # What a container publishes is held by Docker, whoever has started the container.
    ours = is_of_nomad(pid) or (name == "docker-proxy" and shutil.which("nomad"))
    return f"nomad ({name})" if ours and name != "nomad" else name


def is_of_nomad(pid, root=Path("/proc")):
    """Whether Nomad has started the process, or one of its ancestors.

    A program is a descendant of Nomad's executor; a container has Nomad's variables.
    """
    while pid.isdigit() and pid not in {"0", "1"}:
        if _text(root / pid / "comm") == "nomad" or "NOMAD_ALLOC_ID=" in _text(
            root / pid / "environ"
        ):
            return True
        rows = dict(line.split(":", 1) for line in _text(root / pid / "status").splitlines())
        pid = rows.get("PPid", "").strip()
    return False


def own_addresses():
    return {address["local"] for address in _addresses()}


def _addresses():
    asked = subprocess.run(
        ["ip", "-json", "address"], capture_output=True, text=True, timeout=20, check=False
    ).stdout
    return [a for link in json.loads(asked or "[]") for a in link.get("addr_info", [])]


def processor_flags(path=Path("/proc/cpuinfo")):
    for line in _text(path).splitlines():
        # Arm's name for the list is Features.
        if line.startswith(("flags", "Features")):
            return line.partition(":")[2].split()
    return []


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


def judge_controller(params):
    return [
        *[judge_folder(folder, wanted) for folder, wanted in params["folders"].items()],
        *map(judge_source, params["sources"]),
    ]


def judge(params, gpu):
    held = listeners()
    local = _text(Path("/proc/sys/net/ipv4/ip_local_port_range"))
    offered = candidates(list(params["packages"]))
    devices = (params["backend"], params["device_user"], params["device_groups"])
    return [
        judge_architecture(os.uname().machine),
        judge_system(system_release()),
        judge_processor(processor_flags(), params["cpu_flags"], params["cpu_variants"]),
        judge_memory(memory_total(), params["memory_bytes"]),
        *[judge_folder(folder, wanted) for folder, wanted in params["folders"].items()],
        judge_clock(time.time(), params["now"], params["clock_tolerance"]),
        judge_address(params["mesh_address"], own_addresses()),
        judge_lease(params["mesh_address"], leased_addresses(), params["reserved_address"]),
        judge_links(physical_links()),
        *[judge_peer(address) for address in params["peers"]],
        *[judge_port(port, owner, held) for port, owner in params["ports"].items()],
        *([judge_port_range(local, params["mesh_ports"])] if local else []),
        judge_packages(apt_is_locked()),
        *[judge_mirror(*mirror) for mirror in package_hosts(params["mirrors_unless"])],
        *[
            judge_package(name, oldest, offered[name], params["components"])
            for name, oldest in params["packages"].items()
        ],
        judge_passwordless(passwordless_files()),
        judge_gpu(gpu),
        *judge_devices(*devices),
        *map(judge_source, params["sources"]),
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
            "cpu_flags": {**LIST, "default": []},
            "cpu_variants": {"type": "list", "elements": "dict", "default": []},
            "backend": {"type": "str", "choices": BACKENDS, "default": "cpu"},
            "device_user": {"type": "str", "default": ""},
            "device_groups": {**LIST, "default": []},
            "packages": {"type": "dict", "default": {}},
            "components": {**LIST, "default": []},
            "mirrors_unless": {"type": "str", "default": ""},
            "reserved_address": {"type": "bool", "default": False},
            "sources": {"type": "list", "elements": "dict", "default": []},
            "wanted": {"type": "dict", "default": {}},
            "now": {"type": "float", "default": 0},
            "clock_tolerance": {"type": "float", "default": 30},
        },
        supports_check_mode=True,
    )  # fmt: skip
    params = module.params
    if params["sections"] == ["sources"]:
        module.exit_json(changed=False, gpu={}, findings=judge_controller(params), missing=[])
    gpu = probe_gpu()
    missing = [name for name, pattern in params["wanted"].items() if not matches(pattern)]
    findings = judge(params, gpu) if "findings" in params["sections"] else []
    module.exit_json(changed=False, gpu=gpu, findings=findings, missing=missing)


if __name__ == "__main__":
    main()
