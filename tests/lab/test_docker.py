"""Docker inside the lab's hosts: what jobs with the docker driver stand on."""

import socket
import time
from collections.abc import Iterator

import pytest

from hearth.lab.lab import Lab
from tests.lab.conftest import Boot, Golden
from tests.lab.layers import IMAGES

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600), pytest.mark.extended]
EXTENDED_INPUTS = ["ansible/roles/docker/**", "hearth/lab/**", "tests/lab/layers.py"]
LIMIT = (
    "cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"
)
SERVE = (
    "docker run --detach --init --name web --restart unless-stopped --publish 8099:8099 lab/base "
    "python3 -m http.server 8099"
)


@pytest.fixture(scope="module")
def layer(golden: Golden) -> str:
    """A host with Docker, as the playbook installs it, and an image of the host's own programs."""
    return golden(IMAGES).layer


@pytest.fixture(scope="module")
def docker(boot: Boot, layer: str) -> Iterator[Lab]:
    """A host that begins with it."""
    lab = boot("docker", 1, layer=layer)
    yield lab
    lab.down()


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
    docker: Lab, boot: Boot, layer: str
) -> None:
    """Layers of images are shared with the snapshot: what a container writes may not be."""
    write = (
        "docker run --name writer lab/base sh -c 'echo written > /etc/issue.net; cat /etc/issue'"
    )
    lab = boot("other-docker", 1, layer=layer)
    other = lab.node("node1")

    first = docker.node("node1").ssh(write)
    docker.node("node1").ssh("docker rm --force writer; docker image rm --force lab/base")

    assert other.ssh(write) == first
    assert other.ssh("docker ps --all --format '{{.Names}}'").split() == ["writer"]
    lab.down()


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
