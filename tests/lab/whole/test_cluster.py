"""The whole of Hearth on three hosts: from bare Debian to answers, and on when a host is lost."""

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from hearth.lab.errors import ProgramFailed
from hearth.lab.lab import Lab
from hearth.lab.node import Node
from hearth.release.wheelhouse import build
from tests.lab.conftest import Boot, Layer
from tests.lab.playbooks import ROOT, play, secrets, vault
from tests.lab.test_hosts import three

pytestmark = [pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(1500)]

MOVE_SECONDS = 420
"""Nomad waits a minute before it takes a machine for lost; then a model has to load."""


@pytest.fixture(scope="module")
def cluster(golden: Layer, boot: Boot) -> Lab:
    """Three hosts with everything that the playbook brings."""
    lab = boot("whole", 3, layer=golden("machines", three))
    build(ROOT, ROOT / ".cache" / "releases", arch="x86_64", python="3.11")
    play(lab)
    return lab


@contextmanager
def gateway(lab: Lab, asked: Node) -> Iterator[httpx2.Client]:
    """The gateway, where the names of the cluster say on one of its hosts that it is."""
    address = asked.ssh("getent ahostsv4 moe-gateway.service.consul").split()[0]
    trust = ssl.create_default_context(cafile=str(vault().with_name("cluster.ca.pem")))
    headers = {"authorization": f"Bearer {secrets()['api_key']}"}
    with (
        lab.inside(),
        httpx2.Client(
            base_url=f"https://{address}:8080", headers=headers, verify=trust, timeout=120
        ) as client,
    ):
        yield client


def answer(client: httpx2.Client, model: str = "auto") -> str:
    """The words of a short answer."""
    body = {
        "model": model, "max_tokens": 12,
        "messages": [{"role": "user", "content": "Say hello."}],
    }  # fmt: skip
    told = client.post("/v1/chat/completions", json=body).raise_for_status().json()
    return str(told["choices"][0]["message"]["content"])


def machine_of(client: httpx2.Client, expert: str) -> str:
    """The machine that a healthy instance of an expert runs on."""
    experts: list[dict[str, Any]] = client.get("/api/experts").json()["experts"]
    (found,) = [one for one in experts if one["name"] == expert]
    return str(next(one["machine"] for one in found["instances"] if one["healthy"]))


@pytest.mark.proves("004-38")
def test_cluster_proves_itself_as_its_user_would(cluster: Lab) -> None:
    """Names, servers, jobs, chat, agent, a tool call, figures: the playbook that users run."""
    ran = play(cluster, playbook="e2e-tests.yaml")

    assert "The tool was called and its result reached the model" in ran.output
    assert "The answers of this test are counted" in ran.output


def test_second_run_changes_nothing(cluster: Lab) -> None:
    """Whoever may run it again at any time does, and nothing is restarted by that."""
    ran = play(cluster)

    assert ran.changed == {"node1": 0, "node2": 0, "node3": 0}, ran.changes


def test_model_is_computed_by_the_hosts_together(cluster: Lab) -> None:
    """A model that no machine can hold alone: its layers lie on the others, as they say."""
    play(cluster, "-e", "expert=together", playbook="deploy_expert.yaml")

    with gateway(cluster, cluster.node("node1")) as client:
        deadline = time.monotonic() + 60
        while "together" not in [one["id"] for one in client.get("/v1/models").json()["data"]]:
            assert time.monotonic() < deadline, client.get("/api/experts").text
            time.sleep(1)
        words = answer(client, "together")

    logs = [
        node.ssh(
            "cat /var/lib/nomad/alloc/*/alloc/logs/*.std*.0 2>/dev/null | grep -ac buffer || true"
        )
        for node in cluster.nodes()
    ]
    assert words
    assert sum(int(count) > 0 for count in logs) >= 2, logs


def test_chat_goes_on_when_the_machine_of_the_expert_dies(cluster: Lab) -> None:
    """The plug is pulled: the expert is placed elsewhere, and whoever asks gets answers again."""
    with gateway(cluster, cluster.node("node1")) as client:
        lost = machine_of(client, "general")
    left = next(node for node in cluster.nodes() if node.name != lost)
    cluster.node(lost).kill()
    try:
        words, deadline = "", time.monotonic() + MOVE_SECONDS
        while not words:
            assert time.monotonic() < deadline, "nobody answers"
            try:
                with gateway(cluster, left) as client:
                    words = answer(client)
                    moved = machine_of(client, "general")
            # Names without an answer, too: the servers elect a leader, or the gateway moves.
            except (httpx2.HTTPError, ProgramFailed, StopIteration):
                time.sleep(2)
    finally:
        cluster.node(lost).reboot()

    assert moved != lost
