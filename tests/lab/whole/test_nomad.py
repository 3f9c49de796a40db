"""Nomad on real hosts: who is who, what it can run, and who may do what."""

import itertools
import json
import time
from typing import Any

import pytest

from hearth.lab.lab import Lab
from hearth.lab.node import Node
from tests.lab.conftest import Boot, Layer
from tests.lab.playbooks import converge, play, secrets
from tests.lab.test_hosts import three

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


@pytest.fixture(scope="module")
def nomad(golden: Layer, boot: Boot) -> Lab:
    """Three hosts with a server and a client each."""
    lab = boot("nomad", 3, layer=golden("machines", three))
    converge(lab, tags="nomad")
    return lab


def asks(lab: Lab, node: Node, words: str, *, token: str | None = None) -> str:
    """The command line of Nomad on a host, with the token that may do everything."""
    if token is None:
        token = str(secrets()["nomad_management_token"])
    return node.ssh(
        "NOMAD_ADDR=https://127.0.0.1:4646 NOMAD_CACERT=/etc/hearth/machine/ca.pem "
        f"NOMAD_TOKEN={token} nomad {words}"
    )


def test_clients_have_drivers_volumes_and_facts(nomad: Lab) -> None:
    """Jobs are placed by what a machine says of itself."""
    for node in nomad.nodes():
        me: dict[str, Any] = json.loads(asks(nomad, node, "node status -self -json"))
        assert me["Drivers"]["docker"]["Healthy"]
        assert me["Drivers"]["raw_exec"]["Healthy"]
        assert set(me["HostVolumes"]) == {"hearth-state", "hearth-tls"}
        assert me["Meta"]["power_class"] == "always_on"
        assert me["Meta"]["gpu_backend"] == "cpu"
        assert me["Meta"]["arch"] == "x86_64"


def test_nobody_without_a_token_learns_anything(nomad: Lab) -> None:
    """A port that is open on the home network must not run what it is sent."""
    node = nomad.node("node1")

    said = node.ssh(
        "NOMAD_ADDR=https://10.231.7.11:4646 NOMAD_CACERT=/etc/hearth/machine/ca.pem "
        "nomad node status 2>&1 || true"
    )

    assert "403" in said
    assert "node2" not in said


def test_job_runs_as_our_user_and_reads_the_catalogue_by_its_identity(nomad: Lab) -> None:
    """Services get their rights from who they are; no token lies in a job."""
    node = nomad.node("node1")
    node.ssh(f"cat > /root/whoami.nomad.hcl <<'END'\n{JOB}\nEND")
    asks(nomad, node, "job run /root/whoami.nomad.hcl")

    said, end = "", time.monotonic() + 60
    while "nomad-client" not in said and time.monotonic() < end:
        time.sleep(1)
        said = asks(nomad, node, "alloc logs -job whoami 2>&1 || true")

    assert said.split()[0] == "hearth"
    assert "consul" in said
    assert "nomad-client" in said
    asks(nomad, node, "job stop -purge whoami")


def test_second_run_leaves_nomad_alone(nomad: Lab) -> None:
    """Not a task, not a restart, not a write to its interface."""
    ran = converge(nomad, tags="nomad")

    assert set(ran.changed.values()) == {0}, ran.changes
    assert set(play(nomad, "--check", "--diff", "--tags", "nomad").changed.values()) == {0}


def test_servers_are_never_down_together_while_settings_change(nomad: Lab) -> None:
    """A change of a setting restarts one server, waits for it, then the next."""
    converge(nomad, "-e", "nomad_log_level=WARN", tags="nomad_configure")

    started = sorted(
        float(node.ssh("systemctl show --value --property ActiveEnterTimestampMonotonic nomad"))
        for node in nomad.nodes()
    )
    peers = asks(nomad, nomad.node("node1"), "operator raft list-peers")

    assert peers.count("true") == 3
    assert all(later - earlier > 1e6 for earlier, later in itertools.pairwise(started))
