"""The operating systems that hosts begin with: a small tree of files of each.

A tree is what the installer of the system leaves. It is made once, from a recipe whose digest names
it, and never changed: hosts write into separate layers.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from hearth.lab.errors import NoEmulator, NoMirror, SystemUnknown
from hearth.lab.network import BRIDGE_ADDRESS
from hearth.lab.programs import remove, run
from hearth.settings import Settings


@dataclass(frozen=True)
class System:
    """An operating system.

    Attributes:
        suite: Its code name, which names its archive.
        title: Its name for people.
        origin: The project that apt names as the origin of its packages.
        components: Parts of its archive that hosts use.
        packages: Packages of its installer besides `PACKAGES`.
        architecture: Debian's name of its architecture; empty is the architecture of this machine.
    """

    suite: str
    title: str
    origin: str = "Debian"
    components: tuple[str, ...] = ("main",)
    packages: tuple[str, ...] = ()
    architecture: str = ""


DEFAULT: Final = "debian-12"
SYSTEMS: Final = {
    DEFAULT: System("bookworm", "Debian 12"),
    "debian-13": System("trixie", "Debian 13"),
    "ubuntu-24.04": System("noble", "Ubuntu 24.04", "Ubuntu", ("main", "universe"), ("apparmor",)),
    "debian-12-arm64": System("bookworm", "Debian 12 for arm64", architecture="arm64"),
}
EMULATORS: Final = {"arm64": Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")}
"""Architecture -> the kernel's entry that has its programs run by qemu on any other machine."""
SCRIPTS: Final = {"Debian": "sid", "Ubuntu": "gutsy"}
"""Origin -> debootstrap's script for suites that are newer than debootstrap."""
UBUNTU_KEYS: Final = Path("usr/share/keyrings/ubuntu-archive-keyring.gpg")
"""Where Debian's package `ubuntu-keyring` has the keys of Ubuntu's archive, below the root."""
ARCHIVES: Final = ("", "-updates", "-security")
"""Suffixes of the code name of a system: one for each archive of its packages."""
PROXY_PORT = 3142
PACKAGES = (
    "ca-certificates", "dbus", "iproute2", "iputils-ping", "libpam-systemd", "netbase",
    "openssh-server", "procps", "python3", "python3-apt", "sudo", "systemd", "systemd-sysv",
)  # fmt: skip
MASKED = ("console-getty.service", "systemd-networkd-wait-online.service")
"""There is no console, and the network is up before the host is."""

# Docker makes control groups, which systemd-nspawn mounts read-only with version 1.
WRITABLE_CGROUPS = """\
[Unit]
Description=Let containers make control groups
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'for group in /sys/fs/cgroup /sys/fs/cgroup/*; do \\
    if mountpoint -q $group; then mount -o remount,bind,rw $group; fi; done'

[Install]
WantedBy=sysinit.target
"""
FILES = {
    "etc/apt/apt.conf.d/90lab": f'Acquire::http::Proxy "http://{BRIDGE_ADDRESS}:{PROXY_PORT}";\n',
    "etc/resolv.conf": f"nameserver {BRIDGE_ADDRESS}\n",
    "etc/systemd/system/writable-cgroups.service": WRITABLE_CGROUPS,
}
"""Files that the installer would have asked for: a proxy, the router's name server."""


def named(name: str) -> System:
    """Return the system of a name such as `debian-13`; `SystemUnknown` if there is none."""
    if name not in SYSTEMS:
        raise SystemUnknown(name, known=list(SYSTEMS))
    return SYSTEMS[name]


def mirrors(system: System, targets: str) -> dict[str, str]:
    """Return suite -> mirror for a system: a home may have its own mirror.

    A mirror has all suites of its archive, so those of another release name the mirror, too.

    Args:
        system: The system.
        targets: Sources that apt of this machine uses: lines of origin, suite and address.
    """
    lines = [line.split() for line in targets.splitlines()]
    pairs = {suite: url for origin, suite, url in lines if origin == system.origin}
    found = {}
    for kind in ARCHIVES:
        known = [url for suite, url in sorted(pairs.items()) if _kind(suite) == kind]
        if known:
            found[f"{system.suite}{kind}"] = pairs.get(f"{system.suite}{kind}", known[0])
    return {suite: url.rstrip("/") for suite, url in found.items()}


def mirrors_used(system: System) -> dict[str, str]:
    """Return the mirrors from the settings, else those that this machine installs from.

    Empty for Ubuntu where neither names one: debootstrap knows the mirror of the project. Raises
    `NoMirror` for Debian.
    """
    settings = Settings.load()
    if system.origin == "Ubuntu" and settings.lab_ubuntu_mirror:
        url = settings.lab_ubuntu_mirror.rstrip("/")
        return {f"{system.suite}{kind}": url for kind in ARCHIVES}
    if system.origin == "Debian" and settings.lab_mirror:
        return {system.suite: settings.lab_mirror.rstrip("/")}
    found = mirrors(system, _targets())
    if system.suite not in found and system.origin == "Debian":
        raise NoMirror(system.title)
    return found


def _kind(suite: str) -> str:
    """Return the archive that a suite belongs to, as in `ARCHIVES`."""
    return next((kind for kind in ARCHIVES[1:] if suite.endswith(kind)), "")


@cache
def _targets() -> str:
    """Return the sources of the apt of this machine, which takes half a second."""
    form = "$(ORIGIN) $(CODENAME) $(REPO_URI)"
    return run("apt-get", "indextargets", "--format", form, "Created-By: Packages")


def recipe(system: System, mirrors: Mapping[str, str]) -> str:
    """Return the parts of the tree of a system; its digest changes when any of them does."""
    parts = [
        system.suite,
        system.components,
        dict(mirrors),
        PACKAGES + system.packages,
        MASKED,
        FILES,
    ]
    return json.dumps(parts, sort_keys=True)


def tree_in(bases: Path, system: System) -> Path:
    """Return where the tree of a system lies that this recipe makes on this machine."""
    digest = sha256(recipe(system, mirrors_used(system)).encode()).hexdigest()[:12]
    return bases / f"{system.suite}-{_architecture(system)}-{digest}"


@cache
def _own_architecture() -> str:
    return run("dpkg", "--print-architecture").strip()


def _architecture(system: System) -> str:
    return system.architecture or _own_architecture()


def title_of(tree: Path) -> str:
    """Return the name of the system that a tree in the folder of trees belongs to."""
    suite, architecture, _ = tree.name.split("-")
    for system in SYSTEMS.values():
        if (system.suite, _architecture(system)) == (suite, architecture):
            return system.title
    return suite


def make(
    bases: Path, system: System, *, keep: Iterable[Path], report: Callable[[str], None]
) -> Path:
    """Return the tree of a system below `bases`, which is made unless it exists.

    Making it takes a minute or two, and a network. A tree that was begun and not finished does not
    count. Older trees of the same system are removed unless they are in `keep`. Raises
    `NoEmulator`, `NoMirror` and `ProgramFailed`.
    """
    tree = tree_in(bases, system)
    if tree.is_dir():
        return tree
    architecture = _architecture(system)
    if architecture != _own_architecture() and not EMULATORS[architecture].exists():
        raise NoEmulator(system.title)
    report(f"Making the disk of hosts with {system.title}: this takes a minute or two, once …")
    packages = bases / "packages" / system.suite
    packages.mkdir(parents=True, exist_ok=True)
    name = f"{system.suite}-{architecture}-*"
    old = [*bases.glob(name), *bases.glob(f".{name}")]
    for other in set(old) - set(keep):
        remove(other)
    begun, found = bases / f".{tree.name}", mirrors_used(system)
    # debootstrap mounts /proc in there: in a separate mount namespace none is left over.
    run(
        "unshare", "--mount", "--",
        "debootstrap", f"--arch={architecture}", "--variant=minbase",
        f"--include={','.join(PACKAGES + system.packages)}",
        f"--components={','.join(system.components)}", f"--cache-dir={packages}",
        *([f"--keyring={_ubuntu_keys(bases)}"] if system.origin == "Ubuntu" else []),
        system.suite, begun, found.get(system.suite, ""), *_script(system),
        log=bases / "debootstrap.log",
    )  # fmt: skip
    _set_up(begun, system, found)
    run("sync", "--file-system", begun)
    begun.rename(tree)
    return tree


def _ubuntu_keys(bases: Path) -> Path:
    """Return the keys of Ubuntu's archive: this machine's, else those that Debian 13 has.

    Debian 12 has no package of them. Debian's own keys vouch for the package.
    """
    folder = bases / "ubuntu-keys"
    for root in (Path("/"), folder):
        if (root / UBUNTU_KEYS).exists():
            return root / UBUNTU_KEYS
    debian, fetched = named("debian-13"), bases / ".ubuntu-keys"
    remove(fetched)
    run(
        "debootstrap", "--download-only", "--variant=minbase", "--include=ubuntu-keyring",
        debian.suite, fetched, mirrors_used(debian)[debian.suite], *_script(debian),
        log=bases / "debootstrap.log",
    )  # fmt: skip
    (package,) = fetched.glob("var/cache/apt/archives/ubuntu-keyring_*.deb")
    run("dpkg-deb", "--extract", package, folder)
    remove(fetched)
    return folder / UBUNTU_KEYS


def _script(system: System) -> list[str]:
    """Return debootstrap's script for a system that it does not know, or nothing."""
    known = Path("/usr/share/debootstrap/scripts", system.suite).exists()
    return [] if known else [SCRIPTS[system.origin]]


def _set_up(tree: Path, system: System, mirrors: Mapping[str, str]) -> None:
    file = tree / "etc/apt/sources.list"
    if not mirrors:
        # The mirror that debootstrap knows has all archives.
        url = file.read_text(encoding="ascii").split()[1]
        mirrors = {f"{system.suite}{kind}": url for kind in ARCHIVES}
    parts = " ".join(system.components)
    sources = "".join(f"deb {mirror} {suite} {parts}\n" for suite, mirror in mirrors.items())
    file.write_text(sources, encoding="ascii")
    for name, content in FILES.items():
        (tree / name).unlink(missing_ok=True)
        (tree / name).write_text(content, encoding="utf-8")
    run("chroot", tree, "systemctl", "enable", "writable-cgroups.service")
    run("chroot", tree, "systemctl", "mask", *MASKED)
    # Identities that must differ from host to host are made when a host is.
    for identity in [*tree.glob("etc/ssh/ssh_host_*"), tree / "etc/machine-id"]:
        identity.unlink(missing_ok=True)
    for archive in tree.glob("var/cache/apt/archives/*.deb"):
        archive.unlink()
