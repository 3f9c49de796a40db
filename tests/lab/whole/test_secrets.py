"""The file of secrets of a running cluster: what a person does who has lost what was in it."""

import re
from io import StringIO
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from hearth.cluster import vault
from hearth.lab.lab import Lab
from tests.lab.layers import kv
from tests.lab.playbooks import PASSWORD, Ran, play, secrets
from tests.lab.whole.asking import Unsettled, agents, patiently, settle

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.nomad,
    pytest.mark.extended,
    pytest.mark.timeout(1500),
]
EXTENDED_INPUTS = [
    "rotate_secrets.yaml", "secrets.yaml", "group_vars/all/main.yaml", "ansible/plugins/**",
    "ansible/playbooks/tasks/**", "ansible/roles/certificate/**", "ansible/roles/consul/**",
    "ansible/roles/nomad/**", "hearth/cluster/acl/**", "hearth/cluster/endpoint.py",
    "hearth/cluster/secrets.py",
]  # fmt: skip

RECIPE = re.compile(r"as root on the leader \(([0-9.]+):\d+\): `(echo \d+ > \S+)`")
ACCESS = ["--limit", "node1", "--tags", "consul_access,nomad_access"]


def test_lost_management_tokens_are_set_up_anew_beside_the_lost_ones(
    cluster: Lab, tmp_path: Path
) -> None:
    """A run without them changes nothing and says what to do; who does it has the cluster again,
    with its jobs and its data, and whoever finds the lost ones can still use them."""
    file = tmp_path / "cluster.vault.yaml"
    file.write_bytes(vault.close(_without_management_tokens(), PASSWORD.encode()))
    with agents(cluster, cluster.node("node1")) as (_, nomad):
        jobs = {row.id: row.modify_index for row in nomad.jobs()}
    cluster.node("node1").ssh(kv("put tests/before-the-loss yes"))

    for product in ("Consul", "Nomad"):
        refused = _run(cluster, file)
        assert refused.returncode != 0
        assert f"The access control of {product} at" in refused.output, refused.output
        found = RECIPE.search(" ".join(refused.output.split()))
        assert found, refused.output
        leader = next(node for node in cluster.nodes() if str(node.address) == found[1])
        leader.ssh(found[2])
    anew = _run(cluster, file)
    again = _run(cluster, file)

    assert anew.returncode == 0, anew.output[-4000:]
    assert again.changed == {"node1": 0}, again.changes
    with agents(cluster, cluster.node("node1")) as (_, nomad):
        assert {row.id: row.modify_index for row in nomad.jobs()} == jobs
    assert cluster.node("node1").ssh(kv("get tests/before-the-loss")).strip() == "yes"


def _run(lab: Lab, file: Path) -> Ran:
    return play(lab, *ACCESS, variables={"cluster_secrets_file": str(file)}, check=False)


def _without_management_tokens() -> bytes:
    """The content of the file of secrets, but for the two: the next run makes new ones."""
    kept = {name: told for name, told in secrets().items() if "_management_token" not in name}
    text = StringIO()
    YAML().dump(kept, text)
    return text.getvalue().encode()


def test_all_secrets_are_replaced_while_another_machine_leads(cluster: Lab) -> None:
    """The controller asks the first machine, which then has to ask the leader."""
    before = secrets()
    _take_leadership_from(cluster, "node1")

    ran = play(cluster, "-e", "rotate=all", playbook="rotate_secrets.yaml")

    after = secrets()
    assert "Replaced: " in ran.output
    assert set(after) == set(before)
    assert [name for name in after if after[name] == before[name]] == []
    settle(cluster)


def _take_leadership_from(lab: Lab, name: str) -> None:
    """Have other machines lead Consul and Nomad."""
    node, asked = lab.node(name), next(node for node in lab.nodes() if node.name != name)
    node.ssh("systemctl stop consul nomad")

    def others_lead() -> None:
        with agents(lab, asked) as (consul, nomad):
            leaders = [consul.leader(), nomad.leader()]
        if not all(leaders) or any(leader.startswith(f"{node.address}:") for leader in leaders):
            raise Unsettled(f"the leaders are {leaders}")

    try:
        patiently(others_lead)
    finally:
        node.ssh("systemctl start consul nomad")
    settle(lab)
