"""Docker inside the lab's hosts: what jobs with the docker driver stand on."""

import socket
import time

import pytest

from hearth.lab.lab import Lab
from tests.lab.conftest import Boot, Layer

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]
INSTALL = """
export DEBIAN_FRONTEND=noninteractive
apt-get update && apt-get install --yes --no-install-recommends docker.io iptables
cd / && tar --create --one-file-system bin etc lib lib64 sbin usr/bin usr/lib usr/lib64 usr/sbin |
    docker import - lab/base
"""
LIMIT = (
    "cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"
)
SERVE = (
    "docker run --detach --init --name web --restart unless-stopped --publish 8099:8099 lab/base "
    "python3 -m http.server 8099"
)


def install(lab: Lab) -> None:
    """Debian's Docker, and an image of the host's own programs."""
    (node,) = lab.up(1)
    node.ssh(INSTALL, seconds=500)


@pytest.fixture
def docker(golden: Layer, boot: Boot) -> Lab:
    """A host with Docker, from the layer that every test here begins with."""
    return boot("docker", 1, layer=golden("docker", install))


def test_container_is_limited_reached_and_started_again(docker: Lab) -> None:
    """A model server must get its memory limit, its port, and come back after a reboot."""
    node = docker.node("node1")

    limited = node.ssh(f"docker run --rm --memory 64m lab/base sh -c '{LIMIT}'")
    node.ssh(SERVE)

    assert limited.strip() == str(64 << 20)
    assert _answer(docker).startswith("HTTP/1.0 200")
    node.reboot()
    assert _answer(docker).startswith("HTTP/1.0 200")


def test_lab_that_begins_with_a_layer_leaves_its_containers_alone(
    docker: Lab, golden: Layer, boot: Boot
) -> None:
    """Layers of images are shared with the golden layer: what a container writes may not be."""
    write = (
        "docker run --name writer lab/base sh -c 'echo written > /etc/issue.net; cat /etc/issue'"
    )
    other = boot("other-docker", 1, layer=golden("docker", install)).node("node1")

    first = docker.node("node1").ssh(write)
    docker.node("node1").ssh("docker rm --force writer; docker image rm --force lab/base")

    assert other.ssh(write) == first
    assert other.ssh("docker ps --all --format '{{.Names}}'").split() == ["writer"]


def _answer(lab: Lab) -> str:
    """The first bytes that the published port says; it may take a moment until it listens."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with lab.inside(), socket.create_connection(("10.231.7.11", 8099), timeout=5) as end:
                end.sendall(b"GET / HTTP/1.0\r\n\r\n")
                if said := end.recv(64):
                    return said.decode()
        except OSError:
            pass
        if time.monotonic() > deadline:
            pytest.fail("the published port does not answer")
        time.sleep(0.2)
