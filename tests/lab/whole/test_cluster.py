"""The whole of Hearth on three hosts: it answers, and it stays as it was declared."""

import pytest

from hearth.lab.lab import Lab
from tests.lab.playbooks import play
from tests.lab.whole.asking import agents, chat, patiently, settle

pytestmark = [pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(1500)]

STARTED = "systemctl show --property ActiveEnterTimestamp consul nomad docker"
BUFFERS = "cat /var/lib/nomad/alloc/*/alloc/logs/*.std*.0 2>/dev/null | grep -ac buffer || true"


@pytest.mark.proves("004-16", "004-18", "004-38")
def test_cluster_proves_itself_as_its_user_would(cluster: Lab) -> None:
    """Names, servers, jobs, chat, agent, a tool call, figures: the playbook that users run."""
    ran = play(cluster, playbook="e2e-tests.yaml")

    assert "The tool was called and its result reached the model" in ran.output
    assert "The answers of this test are counted" in ran.output


@pytest.mark.proves("004-11", "004-13", "004-27")
def test_second_run_changes_nothing_and_restarts_nothing(cluster: Lab) -> None:
    """Whoever may run it again at any time does, and nobody notices."""
    started = [node.ssh(STARTED) for node in cluster.nodes()]
    with agents(cluster, cluster.nodes()[0]) as (_, nomad):
        jobs = {row.id: row.modify_index for row in nomad.jobs()}

    ran = play(cluster)

    assert ran.changed == {"node1": 0, "node2": 0, "node3": 0}, ran.changes
    assert [node.ssh(STARTED) for node in cluster.nodes()] == started
    with agents(cluster, cluster.nodes()[0]) as (_, nomad):
        assert {row.id: row.modify_index for row in nomad.jobs()} == jobs


def test_model_is_computed_by_the_hosts_together(cluster: Lab) -> None:
    """A model that no machine can hold alone: its layers lie on the others, as they say."""
    play(cluster, "-e", "expert=together", playbook="deploy_expert.yaml")
    try:
        assert chat(cluster, cluster.node("node1"), "together")

        logs = [node.ssh(BUFFERS) for node in cluster.nodes()]
        assert sum(int(count) > 0 for count in logs) >= 2, logs
    finally:
        _end(cluster, "llama-expert-together")


def _end(lab: Lab, job: str) -> None:
    """Take away an expert that only one test asked."""
    with agents(lab, lab.nodes()[0]) as (_, nomad):
        patiently(lambda: nomad.stop(job, purge=True))
    settle(lab)
