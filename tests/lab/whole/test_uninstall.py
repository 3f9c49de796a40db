"""The end of a cluster."""

from fnmatch import fnmatch

import pytest

from hearth.lab.lab import Lab
from tests.lab.playbooks import play

pytestmark = [pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(1500)]

LEFT = [
    "dev/*", "run/*", "etc/.updated", "var/.updated", "etc/machine-id", "etc/ssh/ssh_host_*",
    "root/.ssh/authorized_keys", "var/backups/*",
    "var/cache/apt/*", "var/lib/apt/*", "var/lib/dpkg/*", "var/lib/systemd/*", "var/log/*",
    "usr/lib/python3.*/*", "usr/lib/x86_64-linux-gnu/libgomp.*", "usr/share/doc/*",
    "usr/share/lintian/*", "usr/share/python-wheels/*",
]  # fmt: skip
"""What may differ from a bare tree: what makes a host of it; what apt and systemd remember; and
libraries that came with our packages, and that other programs may use by now."""
FILES = "cd / && find . -xdev \\( -type f -o -type l \\) -printf '%P\\n'"


def test_uninstall_leaves_the_hosts_as_they_were(cluster: Lab) -> None:
    """What cannot be removed is not installed lightly."""
    play(
        cluster, "-e", "uninstall_confirm=lab", "-e", "uninstall_data=true",
        playbook="uninstall.yaml",
    )  # fmt: skip

    for node in cluster.nodes():
        bare = {str(path.relative_to(base)) for base in [node.disk.lower[-1]]
                for path in base.rglob("*") if path.is_file() or path.is_symlink()}  # fmt: skip
        there = set(node.ssh(FILES).splitlines())
        odd = [p for p in sorted(there ^ bare) if not any(fnmatch(p, may) for may in LEFT)]
        assert odd == [], odd
        assert node.ssh("ls /var/lib/docker").split() == []
        assert node.ssh("getent passwd consul hearth || true") == ""
        assert node.ssh("systemctl is-system-running").strip() == "running"
