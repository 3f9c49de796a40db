"""The disk that every host begins with: a small Debian as its installer leaves it.

It is made once, from a recipe whose digest names it, and never changed: hosts write into layers
of their own.
"""

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

from hearth.lab.errors import NoMirror
from hearth.lab.network import BRIDGE_ADDRESS
from hearth.lab.programs import remove, run
from hearth.settings import Settings

SUITE = "bookworm"
PROXY_PORT = 3142
PACKAGES = (
    "ca-certificates", "dbus", "iproute2", "iputils-ping", "libpam-systemd", "netbase",
    "openssh-server", "procps", "python3", "python3-apt", "sudo", "systemd", "systemd-sysv",
)  # fmt: skip
MASKED = ("console-getty.service", "systemd-networkd-wait-online.service")
"""There is no console, and the network is up before the host is."""

SUITES = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
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
"""What the installer would have asked for: a proxy, the router's name server."""


def mirrors(targets: str) -> dict[str, str]:
    """Suite -> mirror, as the apt of this machine has them: a home may have a mirror of its own.

    `targets` are lines of origin, suite and address. Raises `NoMirror` when Debian's suite is not
    among them.
    """
    lines = [line.split() for line in targets.splitlines()]
    pairs = {suite: address for origin, suite, address in lines if origin == "Debian"}
    found = {suite: pairs[suite].rstrip("/") for suite in SUITES if suite in pairs}
    if SUITE not in found:
        raise NoMirror(SUITE)
    return found


def mirrors_used() -> dict[str, str]:
    """The mirror of the settings, else those that this machine installs from."""
    chosen = Settings.load().lab_mirror
    if chosen:
        return {SUITE: chosen.rstrip("/")}
    return mirrors(_targets())


@cache
def _targets() -> str:
    """What the apt of this machine knows; it takes half a second to say so."""
    form = "$(ORIGIN) $(CODENAME) $(REPO_URI)"
    return run("apt-get", "indextargets", "--format", form, "Created-By: Packages")


def recipe(mirrors: dict[str, str]) -> str:
    """What the base tree is made of; its digest changes when any of it does."""
    return json.dumps([mirrors, PACKAGES, MASKED, FILES], sort_keys=True)


def tree_in(bases: Path) -> Path:
    """Where the base tree is that this recipe makes on this machine."""
    arch = run("dpkg", "--print-architecture").strip()
    digest = sha256(recipe(mirrors_used()).encode()).hexdigest()[:12]
    return bases / f"{SUITE}-{arch}-{digest}"


def make(bases: Path, *, keep: set[Path], tell: Callable[[str], None]) -> Path:
    """The base tree below `bases`, made unless it is there; takes a minute or two, and a network.

    A tree that was begun and not finished does not count. Trees of other recipes are removed,
    those in `keep` excepted.
    """
    tree, found = tree_in(bases), mirrors_used()
    if tree.is_dir():
        return tree
    tell("Making the disk that every host begins with: this takes a minute or two, once …")
    packages = bases / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    for other in {*bases.glob("*-*-*"), *bases.glob(".*-*-*")} - keep:
        remove(other)
    begun = bases / f".{tree.name}"
    # debootstrap mounts /proc in there: in a mount namespace of its own none is left over.
    run(
        "unshare", "--mount", "--",
        "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}",
        f"--cache-dir={packages}", SUITE, begun, found[SUITE], log=bases / "debootstrap.log",
    )  # fmt: skip
    _set_up(begun, found)
    run("sync", "--file-system", begun)
    begun.rename(tree)
    return tree


def _set_up(tree: Path, mirrors: dict[str, str]) -> None:
    sources = "".join(f"deb {mirror} {suite} main\n" for suite, mirror in mirrors.items())
    (tree / "etc/apt/sources.list").write_text(sources, encoding="ascii")
    for name, content in FILES.items():
        (tree / name).unlink(missing_ok=True)
        (tree / name).write_text(content, encoding="utf-8")
    run("chroot", tree, "systemctl", "enable", "writable-cgroups.service")
    run("chroot", tree, "systemctl", "mask", *MASKED)
    # What must differ from host to host is made when a host is.
    for identity in [*tree.glob("etc/ssh/ssh_host_*"), tree / "etc/machine-id"]:
        identity.unlink(missing_ok=True)
    for archive in tree.glob("var/cache/apt/archives/*.deb"):
        archive.unlink()
