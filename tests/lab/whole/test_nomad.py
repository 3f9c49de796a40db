"""Nomad on real hosts: who is who, what it can run, and who may do what."""

import json
import time
from typing import Any

import pytest

from hearth.lab.lab import Lab
from hearth.lab.node import Node
from tests.lab.layers import KEPT
from tests.lab.playbooks import secrets
from tests.lab.whole.asking import agents

pytestmark = [pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(900)]
JOB = """
job "whoami" {
  type = "batch"
  group "whoami" {
    task "whoami" {
      driver = "raw_exec"
      user   = "hearth"
      consul {}
      template {
        data        = "{{ range services }}{{ .Name }} {{ end }}"
        destination = "local/services"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "id -un; cat local/services; sleep 2"]
      }
      resources { memory = 32 }
    }
  }
}
"""


def asks(lab: Lab, node: Node, words: str, *, token: str | None = None) -> str:
    """The command line of Nomad on a host, with the token that may do everything."""
    if token is None:
        token = str(secrets()["nomad_management_token"])
    return node.ssh(
        "NOMAD_ADDR=https://127.0.0.1:4646 NOMAD_CACERT=/etc/hearth/machine/ca.pem "
        f"NOMAD_TOKEN={token} nomad {words}"
    )


def test_clients_have_drivers_volumes_and_facts(cluster: Lab) -> None:
    """Jobs are placed by what a machine says of itself."""
    for node in cluster.nodes():
        me: dict[str, Any] = json.loads(asks(cluster, node, "node status -self -json"))
        assert me["Drivers"]["docker"]["Healthy"]
        assert me["Drivers"]["raw_exec"]["Healthy"]
        assert set(me["HostVolumes"]) == {"hearth-state", "hearth-tls"}
        assert me["Meta"]["power_class"] == "always_on"
        assert me["Meta"]["gpu_backend"] == "cpu"
        assert me["Meta"]["arch"] == "x86_64"


def test_second_and_third_server_join_the_first(cluster: Lab) -> None:
    """A home lab begins with one machine; its jobs and secrets must survive that it grows."""
    for node in cluster.nodes():
        with agents(cluster, node) as (_, nomad):
            assert [peer.voter for peer in nomad.peers()] == [True] * 3
            assert nomad.variable(KEPT)[1] == {"said": "before"}


def test_nobody_without_a_token_learns_anything(cluster: Lab) -> None:
    """A port that is open on the home network must not run what it is sent."""
    node = cluster.node("node1")

    said = node.ssh(
        f"NOMAD_ADDR=https://{node.address}:4646 NOMAD_CACERT=/etc/hearth/machine/ca.pem "
        "nomad node status 2>&1 || true"
    )

    assert "403" in said
    assert "node2" not in said


def test_job_runs_as_our_user_and_reads_the_catalogue_by_its_identity(cluster: Lab) -> None:
    """Services get their rights from who they are; no token lies in a job."""
    node = cluster.node("node1")
    node.ssh(f"cat > /run/whoami.nomad.hcl <<'END'\n{JOB}\nEND")
    asks(cluster, node, "job run /run/whoami.nomad.hcl")

    said, end = "", time.monotonic() + 60
    while "nomad-client" not in said and time.monotonic() < end:
        time.sleep(1)
        said = asks(cluster, node, "alloc logs -job whoami 2>&1 || true")

    assert said.split()[0] == "hearth"
    assert "consul" in said
    assert "nomad-client" in said
    asks(cluster, node, "job stop -purge whoami")
