"""heal_cluster.yaml on hosts on which somebody, or the years, changed things."""

import itertools
import json
import ssl
from dataclasses import replace

import pytest
from cryptography import x509

from hearth.cluster.certificates import Pair, issue
from hearth.cluster.consul import Consul
from hearth.cluster.drift import journal
from hearth.lab.lab import Lab
from hearth.lab.node import Node
from tests.lab.playbooks import play, secrets, vault
from tests.lab.whole.asking import agents, patiently, settle

pytestmark = [pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(1500)]

EXTENDED_INPUTS = [
    "heal_cluster.yaml", "secrets.yaml", "ansible/playbooks/heal/**", "ansible/playbooks/tasks/**",
    "ansible/roles/certificate/**", "ansible/roles/consul/**", "ansible/roles/host/**",
    "ansible/roles/nomad/**", "hearth/cluster/**", "nomad_jobs/**",
    "tests/lab/whole/asking.py",
]  # fmt: skip

MACHINE = "/etc/hearth/machine/machine"
DAMAGE = """
program=$(readlink -f /usr/local/bin/nomad)
cp "$program" "$program.damaged" && echo x >>"$program.damaged" && mv "$program.damaged" "$program"
"""
STRAY = """
job "stray" {
  group "stray" {
    task "stray" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }
      resources { memory = 32 }
    }
  }
}
"""
AHEAD = """
mkdir /run/ahead
printf '#!/bin/sh\\nPYTHONPATH=/run/ahead exec /usr/bin/python3 "$@"\\n' >/run/python-ahead
chmod +x /run/python-ahead
cat >/run/ahead/sitecustomize.py <<'END'
import time
clock = time.time
time.time = lambda: clock() + 3600
END
cat >/run/systemd/system/systemd-timesyncd.service <<'END'
[Service]
Type=oneshot
ExecStart=/bin/rm -r /run/ahead
END
systemctl daemon-reload
"""
"""Hosts of the lab share one clock, which none of them may set. What asks this one for its time is
told that of a clock that is an hour ahead, until its time service is started."""
AHEAD_NO_MORE = """
rm -r /run/python-ahead /run/systemd/system/systemd-timesyncd.service && systemctl daemon-reload
"""
STARTED = "systemctl show --value --property ActiveEnterTimestampMonotonic nomad"
RUNNING = "systemctl show --value --property ActiveEnterTimestampMonotonic consul nomad"
FOUND = {
    "unit:node2:consul.service",
    "binary:node3:/usr/local/bin/nomad",
    f"certificate:node3:{MACHINE}.pem",
    "config:node1:/etc/nomad.d/nomad.hcl",
    "config:node2:/etc/nomad.d/nomad.hcl",
    "config:node3:/etc/nomad.d/nomad.hcl",
    "node:node2",
    "job:moe-gateway",
    "job:node-exporter",
    "job:llama-expert-general",
    "job:stray",
    "stale:node3:llama-expert-ghost",
    "check:node3:service:left-behind",
    "clock:node3",
}
DISKS = "heal_disk_share=0"
"""The hosts have the disk of the machine that runs the tests, which may be nearly full."""
MOVED = "10.231.7.33"
LEFT_BEHIND = {
    "Name": "left-behind", "Port": 20002, "Check": {"TTL": "1h", "Status": "critical"},
}  # fmt: skip
GHOST = {"ID": "llama-expert-ghost", "Name": "llama-expert-ghost", "Port": 20001}


@pytest.mark.proves("004-10")
def test_drift_of_every_kind_is_found_repaired_and_gone(cluster: Lab) -> None:
    """Stopped and disabled, damaged, about to end, changed by hand, dead, missing, unknown, ahead
    of its time."""
    first, second, third = cluster.nodes()
    _haunt(cluster, third)
    with agents(cluster, third) as (consul, _):
        consul.session.call("PUT", "agent/service/register", LEFT_BEHIND)
    with agents(cluster, first) as (_, nomad):
        parsed = nomad.session.call("POST", "jobs/parse", {"JobHCL": STRAY, "Canonicalize": True})
        nomad.session.call("POST", "jobs", {"Job": parsed})
        nomad.stop("moe-gateway")
        nomad.stop("node-exporter", purge=True)
        nomad.stop("llama-expert-general", purge=True)
        (mine,) = [n.id for n in nomad.nodes() if n.name == second.name]
        shut = {"NodeID": mine, "Eligibility": "ineligible"}
        nomad.session.call("POST", f"node/{mine}/eligibility", shut)
    _age(third)
    for node in cluster.nodes():
        node.ssh("echo '# by hand' >>/etc/nomad.d/nomad.hcl")
    third.ssh(DAMAGE)
    second.ssh("systemctl disable --now consul")
    third.ssh(AHEAD)

    play(
        cluster, "-e", "heal=all", "-e", DISKS, playbook="heal_cluster.yaml",
        of_hosts={third.name: {"ansible_python_interpreter": "/run/python-ahead"}},
    )  # fmt: skip
    third.ssh(AHEAD_NO_MORE)

    log = journal.read(vault().with_name("lab.heal.jsonl"))
    begun = max(index for index, line in enumerate(log) if line["event"] == "repair")
    assert {finding["id"] for finding in log[begun]["findings"]} >= FOUND, json.dumps(log[begun])
    assert log[begun]["failed_repairs"] == {}
    assert {finding["id"] for finding in log[-1]["findings"]} == {"job:stray"}
    assert second.ssh("systemctl is-enabled consul").strip() == "enabled"
    with agents(cluster, first) as (_, nomad):
        nomad.stop("stray", purge=True)
    settle(cluster)


def test_nomad_uses_the_certificate_that_was_made_anew(cluster: Lab) -> None:
    """A file that nobody reads again ends a cluster on the day on which the old one ends."""
    third = cluster.node("node3")

    with cluster.inside():
        served = ssl.get_server_certificate((str(third.address), 4646), timeout=20)

    assert served.strip() == third.ssh(f"cat {MACHINE}.pem").strip()
    assert _days(served) > 30


def test_servers_were_never_down_together_for_that(cluster: Lab) -> None:
    """A change of a setting restarts one server, waits for it, then the next."""
    started = sorted(float(node.ssh(STARTED)) for node in cluster.nodes())

    assert all(later - earlier > 1e6 for earlier, later in itertools.pairwise(started))


@pytest.mark.extended
def test_server_that_got_another_address_is_one_of_them_again(cluster: Lab) -> None:
    """A router hands out another address: the inventory is corrected, and the cluster healed.

    It is the first one, which playbooks ask, and on which the agent and the figures lie.
    """
    first, *others = cluster.nodes()
    old, started = str(first.address), [node.ssh(RUNNING) for node in others]
    cluster.move("node1", MOVED)

    play(cluster, "-e", "heal=all", "-e", DISKS, playbook="heal_cluster.yaml")

    # They are told where it is, and go on.
    assert [node.ssh(RUNNING) for node in others] == started
    settle(cluster)
    addresses = {str(node.address) for node in cluster.nodes()}
    # By the certificate that it has now: the old one is not for this address.
    with agents(cluster, first) as (consul, nomad):
        for peers in (consul.peers(), nomad.peers()):
            assert {peer.address.rpartition(":")[0] for peer in peers} == addresses
        for service in consul.services():
            assert {one.address for one in consul.instances(service)} <= addresses
        assert {node.address for node in nomad.nodes()} == addresses
    for node in cluster.nodes():
        admitted = node.ssh("nft list set inet hearth peers4")
        assert MOVED in admitted
        assert old not in admitted


def _haunt(lab: Lab, node: Node) -> None:
    """An entry of a launcher that is no more, and whose token was ended with it."""
    rules = 'service_prefix "llama-expert-" { policy = "write" }'
    with agents(lab, node) as (consul, _):
        call = consul.session.call
        policy = call("PUT", "acl/policy", {"Name": "ghost", "Rules": rules})
        token = call("PUT", "acl/token", {"Policies": [{"ID": policy["ID"]}]})
        with Consul(replace(consul.endpoint, token=token["SecretID"])) as launcher:
            patiently(lambda: launcher.session.call("PUT", "agent/service/register", GHOST))
        call("DELETE", f"acl/token/{token['AccessorID']}")
        call("DELETE", f"acl/policy/{policy['ID']}")


def _age(node: Node) -> None:
    """A certificate of the cluster's authority that ends tomorrow."""
    authority = secrets()["cluster_authority"]
    old = issue(Pair(authority["certificate"], authority["key"]), node.name, [node.name], days=1)
    node.ssh(f"cat >{MACHINE}.pem <<'END'\n{old.certificate}END")
    node.ssh(f"cat >{MACHINE}-key.pem <<'END'\n{old.key}END")


def _days(certificate: str) -> float:
    found = x509.load_pem_x509_certificate(certificate.encode())
    return (found.not_valid_after_utc - found.not_valid_before_utc).days
