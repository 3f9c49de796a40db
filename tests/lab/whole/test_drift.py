"""What heal_cluster.yaml finds on hosts, and leaves to a person."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hearth.lab.lab import Lab
from tests.lab.playbooks import play, vault
from tests.lab.whole.asking import agents

pytestmark = [pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(900)]

FULL = "/run/full"
FILL = f"mkdir {FULL} && mount -t tmpfs -o size=1m none {FULL} && head -c 1000k /dev/zero >{FULL}/x"
EMPTY = f"umount {FULL} && rmdir {FULL}"
DAY = "24h0m0s"


def test_full_disk_and_what_ends_or_sleeps_is_found(cluster: Lab, tmp_path: Path) -> None:
    """A disk fills for months and a token ends on one day: both are told before they hurt.

    A server that is said to sleep takes the quorum with it on the first quiet evening.
    """
    first, servers = cluster.nodes()[0], [node.name for node in cluster.nodes()]
    wishes = tmp_path / "wishes.json"
    with _ending(cluster) as tokens:
        urls = {"consul": 8501, "nomad": 4646}
        found = {
            "heal_disks": ["/", FULL],
            "heal_agents": {
                name: {
                    "url": f"https://{first.address}:{port}", "token": tokens[name],
                    "ca_file": str(vault().with_name("cluster.ca.pem")),
                }
                for name, port in urls.items()
            },
        }  # fmt: skip
        wishes.write_text(json.dumps(found))
        first.ssh(FILL)
        try:
            ran = play(
                cluster, "--check", "-e", f"@{wishes}", playbook="heal_cluster.yaml",
                variables={"cluster_servers": servers},
                of_hosts={"node3": {"power_class": "sleeps"}},
            )  # fmt: skip
        finally:
            first.ssh(EMPTY)

    for told in (f"disk:node1:{FULL}", "sleep:node3", "token:consul", "token:nomad"):
        assert told in ran.output, ran.output[-6000:]


@contextmanager
def _ending(lab: Lab) -> Iterator[dict[str, str]]:
    """Tokens of both that may do everything, until tomorrow."""
    with agents(lab, lab.nodes()[0]) as (consul, nomad):
        policies = [{"Name": "global-management"}]
        ours = consul.session.call(
            "PUT", "acl/token", {"Policies": policies, "ExpirationTTL": DAY, "Description": "ends"}
        )
        theirs = nomad.session.call(
            "PUT", "acl/token", {"Type": "management", "ExpirationTTL": DAY, "Name": "ends"}
        )
        try:
            yield {"consul": ours["SecretID"], "nomad": theirs["SecretID"]}
        finally:
            consul.session.call("DELETE", f"acl/token/{ours['AccessorID']}")
            nomad.session.call("DELETE", f"acl/token/{theirs['AccessorID']}")
