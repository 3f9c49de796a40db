"""The whole of Hearth on three hosts: it answers, and it stays as it was declared."""

import json
import os
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hearth.cluster.consul import Consul
from hearth.cluster.nomad import Nomad
from hearth.lab.lab import Lab
from tests.ansible import tree
from tests.dashboards.queries import queries
from tests.lab import test_hosts
from tests.lab.playbooks import BIN, changed_by_each, inventory_of, play, secrets, told, vault
from tests.lab.recorded import Record
from tests.lab.whole.asking import (
    Unsettled,
    agent,
    agents,
    chat,
    complete,
    expert,
    figures,
    gateway,
    patiently,
    run_of,
    settle,
)

pytestmark = [pytest.mark.hosts, pytest.mark.nomad, pytest.mark.timeout(1500)]
EXTENDED_INPUTS = [
    "playbook.yaml", "services.yaml", "ansible/plugins/**", "ansible/roles/**", "group_vars/**",
    "inventory/lab.yaml", "nomad_jobs/**",
]  # fmt: skip

STARTED = "systemctl show --property ActiveEnterTimestamp consul nomad docker"
BETTER = "/var/lib/hearth/models/qwen2.5-0.5b/qwen2.5-0.5b-instruct-q4_k_m.gguf"
DAMAGED = f"install -D -o hearth -g hearth /dev/stdin {BETTER} <<<rubbish"
FRAIL = {
    "about": "Its best model is damaged.", "models": ["qwen2.5-0.5b", "smollm2"],
    "context": 1024, "slots": 1, "threads": 1,
}  # fmt: skip
ERRAND = """
kind: workflow
id: elsewhere
steps:
  - id: told
    use: code.run
    where: nomad
    with: {code: "print(6 * 7); open('made', 'w').write('x')"}
  - {id: seen, use: code.run, where: nomad, with: {language: sh, code: "ls"}}
outputs: {said: "{{ told.stdout }}", files: "{{ seen.stdout }}"}
"""
NAMESPACES = "mount --bind /proc/sys/user /proc/sys/user && mount -o remount,bind,rw /proc/sys/user"
"""systemd-nspawn mounts read-only what bubblewrap sets a limit in, which a machine does not."""
WITHIN = {"binary", "certificate", "llama_expert"}
"""Roles that others use, and that run with the tags of these."""
TAGS = [role for role in tree.roles() if role not in {*WITHIN, *test_hosts.TAGS}]
"""A role's tag bears its name. The others are run by tests/lab/test_hosts.py."""
STORED_BY_CONSUL = (
    "acl/tokens", "acl/policies", "acl/roles", "acl/auth-methods", "acl/binding-rules", "kv/",
)  # fmt: skip
STORED_BY_NOMAD = (
    "jobs", "vars", "acl/tokens", "acl/policies", "acl/roles", "acl/auth-methods",
    "acl/binding-rules", "namespaces", "node/pools",
)  # fmt: skip
KEPT = "{kind: workflow, id: kept, steps: [{id: one, use: value, with: {value: 1}}]}"
QUIET = {
    "Hearth: cluster: Alerts",  # nothing is wrong
    "Hearth: experts and gateway: Failovers",
    "Hearth: experts and gateway: Queue",  # nobody has to wait
    "Hearth: experts and gateway: Time in the queue",
    "Hearth: hosts: Disk in use",  # hosts of the lab have overlays, and no clock of their own
    "Hearth: hosts: Clock",
}
"""What has nothing to show here. That they fill is shown in tests/integration/monitoring."""
OURS = (
    "consul agent", "nomad ", "llama-server", "ggml-rpc-server", "prometheus", "-m llama_expert",
    "-m moe_gateway", "-m pipecatapp", "-m speech",
)  # fmt: skip
STARTERS = ("nomad agent", "nomad executor", "nomad logmon", "nomad docker_logger")
BUFFERS = "cat /var/lib/nomad/alloc/*/alloc/logs/*.std*.0 2>/dev/null | grep -ac buffer || true"


@pytest.mark.proves("004-16", "004-18", "004-38")
def test_cluster_proves_itself_as_its_user_would(cluster: Lab) -> None:
    """Names, servers, jobs, chat, agent, a tool call, figures: the playbook that users run."""
    ran = play(cluster, playbook="e2e-tests.yaml")

    assert "Check that the tool call ran and the model received the result" in ran.output
    assert "Wait until Prometheus counts the requests of the gateway" in ran.output


@pytest.mark.proves("004-34", "004-35", "004-36")
def test_agent_runs_in_the_image_that_was_built_from_its_dockerfile(cluster: Lab) -> None:
    """Docker's driver, our own image, and the base that the controller brought: no registry."""
    with agents(cluster, cluster.nodes()[0]) as (_, nomad):
        (group,) = nomad.job("pipecatapp")["TaskGroups"]
        (place,) = [one.node for one in nomad.allocations("pipecatapp") if one.runs]
    (task,) = group["Tasks"]
    image = task["Config"]["image"]
    node = cluster.node(place)

    layers = "docker image inspect --format '{{json .RootFS.Layers}}' "
    ours = json.loads(node.ssh(layers + image))
    (base,) = node.ssh("docker image ls --format '{{.Repository}}:{{.Tag}}' hearth/base").split()

    assert task["Driver"] == "docker"
    assert image in node.ssh("docker ps --format '{{.Image}}'").split()
    assert ours[: len(json.loads(node.ssh(layers + base)))] == json.loads(node.ssh(layers + base))


@pytest.mark.proves("004-49")
def test_services_run_as_users_of_their_own(cluster: Lab) -> None:
    """Who breaks into one of them is not root; only what starts others for others has to be."""
    for node in cluster.nodes():
        rows = node.ssh("ps -eo user:32=,args=").splitlines()
        ours = [row for row in rows if any(name in row for name in OURS)]
        roots = [row for row in ours if row.startswith("root ")]

        assert len(ours) > 3, rows
        assert [row for row in roots if not any(name in row for name in STARTERS)] == []


@pytest.mark.extended
@pytest.mark.proves("004-11", "004-12", "004-13", "004-27")
def test_second_run_changes_nothing_and_restarts_nothing(cluster: Lab, recorded: Record) -> None:
    """Whoever may run it again at any time does, and nobody notices: nothing is changed, restarted
    or written. Its end is all that a new user needs to begin.

    What it finds was brought up in its order: an agent without a model would greet its first user
    with an error.
    """
    assert recorded.notes["expert_healthy"] <= recorded.notes["agent_registered"]
    started = [node.ssh(STARTED) for node in cluster.nodes()]
    with agents(cluster, cluster.nodes()[0]) as (consul, nomad):
        stored = _stored(consul, nomad)
        places = {name: _place(nomad, name) for name in ("pipecatapp", "moe-gateway")}

    # It ends with 1 where a check of a service fails at that moment, which is not asked here.
    ran = told(
        cluster, ["./bootstrap.sh", "-i", str(inventory_of(cluster, 3))], check=False,
        PATH=f"{BIN}:{os.environ['PATH']}",
    )  # fmt: skip

    end = ran.output.rpartition("PLAY RECAP")[2]
    assert f"Key       in {vault()}, encrypted" in end, ran.output[-8000:] + ran.errors[-2000:]
    assert secrets()["api_key"] not in ran.output + ran.errors
    assert re.search(r"(?m)^API +https://\S+:8080/v1$", end), end
    assert "hearth status -i " in end.partition("Next steps")[2]
    assert ran.changed == {"node1": 0, "node2": 0, "node3": 0}, ran.changes
    assert [node.ssh(STARTED) for node in cluster.nodes()] == started
    with agents(cluster, cluster.nodes()[0]) as (consul, nomad):
        assert _stored(consul, nomad) == stored
    for name, port in (("pipecatapp", 8000), ("moe-gateway", 8080)):
        address = f"https://{cluster.node(places[name]).address}:{port}"
        assert re.search(rf"(?m)^{name} +(not )?healthy +{places[name]} +{address}\b", end), end
    assert f"Web page  https://{cluster.node(places['pipecatapp']).address}:8000\n" in end
    assert re.search(r"(?m)^general +healthy +smollm2 +node", end), end
    for node in cluster.nodes():
        assert re.search(rf"(?m)^{node.name} +ready +{node.address} ", end), end


@pytest.mark.extended
def test_check_of_the_converged_cluster_shows_what_would_change_and_nothing_else(
    cluster: Lab,
) -> None:
    """One looks before one changes a number, and whether somebody has changed a machine by hand."""
    ran = play(cluster, "--check", "--diff", "-e", "moe_gateway_memory_mb=170")

    assert ran.changed == {"node1": 1, "node2": 0, "node3": 0}, ran.changes
    assert "Run the gateway" in ran.changes
    assert '-        MemoryMB = "160"' in ran.changes
    assert '+        MemoryMB = "170"' in ran.changes


@pytest.mark.extended
def test_tag_of_each_role_alone_changes_nothing(cluster: Lab) -> None:
    """One role is run alone while one works on it."""
    assert changed_by_each(cluster, TAGS) == {}


def test_backup_of_the_cluster_is_restored(cluster: Lab, tmp_path: Path) -> None:
    """What was said lies on one machine, and its disk may die; a command from a desk keeps it."""
    file, inventory = str(tmp_path / "monday.tar.gz"), str(inventory_of(cluster, 3))
    hearth = [str(BIN / "python"), "-m", "hearth"]
    with agent(cluster, cluster.node("node1")) as client:
        before = run_of(client, KEPT)["id"]
    told(cluster, [*hearth, "backup", "-i", inventory, file])
    with agent(cluster, cluster.node("node1")) as client:
        after = run_of(client, KEPT)["id"]

    ran = told(cluster, [*hearth, "restore", "-i", inventory, file])

    assert ran.output.startswith("Restored the state of ")

    def known() -> list[bool]:
        with agent(cluster, cluster.node("node1")) as client:
            client.get("/api/status").raise_for_status()
            return [client.get(f"/api/runs/{run}").is_success for run in (before, after)]

    # It starts again with what was restored, and its name is known once it answers.
    assert patiently(known) == [True, False]
    settle(cluster)


def test_panels_show_this_cluster(cluster: Lab) -> None:
    """A dashboard that was drawn for other names than this cluster's would stay empty at home."""
    begun = _asked(cluster)
    assert chat(cluster, cluster.node("node1"))

    def look() -> bool:
        with figures(cluster, cluster.node("node1")) as client:
            empty = {title for title, text in queries() if not _series(client, text)} - QUIET
        if empty or _asked(cluster) <= begun:
            raise Unsettled(f"empty: {sorted(empty)}")
        return True

    # A rate is known from the second answer on.
    assert patiently(look)


def test_program_of_a_workflow_runs_on_a_machine_that_nomad_chooses(cluster: Lab) -> None:
    """With the job and the rights that the roles made: no more than to begin and end programs."""
    before = _errands(cluster)
    for node in cluster.nodes():
        node.ssh(NAMESPACES)
    with agent(cluster, cluster.node("node1")) as client:
        run = run_of(client, ERRAND)

    assert run["status"] == "done", run
    assert run["outputs"] == {"said": "42\n", "files": "made\n"}
    assert len(_errands(cluster) - before) == 2


@pytest.mark.extended
def test_model_is_computed_by_the_hosts_together(cluster: Lab) -> None:
    """A model that no machine can hold alone: its layers lie on the others, as they say.

    The expert is taken away by the command that brought it.
    """
    expert = ("-e", "expert=together")
    play(cluster, *expert, playbook="deploy_expert.yaml")
    try:
        assert chat(cluster, cluster.node("node1"), "together")

        logs = [node.ssh(BUFFERS) for node in cluster.nodes()]
        assert sum(int(count) > 0 for count in logs) >= 2, logs
    finally:
        play(cluster, *expert, "-e", "expert_state=absent", playbook="deploy_expert.yaml")
        settle(cluster)
    with agents(cluster, cluster.nodes()[0]) as (_, nomad):
        assert "llama-expert-together" not in {row.id for row in nomad.jobs()}


def test_what_the_cluster_says_the_cluster_hears(cluster: Lab) -> None:
    """Both jobs are found through Consul wherever Nomad has put them, by the gateway and by the
    agent; the agent can be talked with and tells devices whom to trust."""
    question = "What is the capital of France?"
    spoken = {"model": "tts-1", "voice": "alloy", "input": question, "response_format": "wav"}
    with gateway(cluster, cluster.nodes()[0]) as client:
        said = client.post("/v1/audio/speech", json=spoken)
        assert said.status_code == 200, said.text
        heard = client.post(
            "/v1/audio/transcriptions", data={"model": "whisper-1"},
            files={"file": ("question.wav", said.content)},
        )  # fmt: skip
    with agent(cluster, cluster.nodes()[0]) as client:
        talk = client.get("/api/voice").json()

    assert heard.status_code == 200, heard.text
    assert "capital" in heard.json()["text"].lower()
    assert (talk["trouble"], talk["authority"]) == (None, "/ca.crt")
    assert talk["voices"]


@pytest.mark.extended
def test_damaged_model_is_passed_over_and_that_is_said(cluster: Lab) -> None:
    """A disk that loses a block costs quality, not the service; and somebody learns of it."""
    for node in cluster.nodes():
        node.ssh(DAMAGED)
    try:
        play(
            cluster, "--tags", "bootstrap_agent",
            variables={"experts": {"frail": FRAIL}, "experts_deployed": ["frail"]},
        )  # fmt: skip
        with gateway(cluster, cluster.node("node1")) as client:
            answered = patiently(lambda: complete(client, "frail"))
            told = expert(client, "frail")
        with agent(cluster, cluster.node("node1")) as client:
            shown = client.get("/api/status").raise_for_status().json()["experts"]
    finally:
        _end(cluster, "llama-expert-frail")
        for node in cluster.nodes():
            node.ssh(f"rm -r $(dirname {BETTER})")

    assert answered.json()["choices"][0]["message"]["content"]
    assert answered.headers["x-hearth-expert"] == "frail"
    assert answered.headers["x-hearth-model"] == told["model"] == "smollm2"
    (frail,) = [one for one in shown if one["name"] == "frail"]
    assert frail["model"] == "smollm2"
    assert "qwen2.5-0.5b" in frail["model_reason"]


def _place(nomad: Nomad, job: str) -> str:
    """The machine that a job runs on."""
    (place,) = [one.node for one in nomad.allocations(job) if one.runs]
    return place


def _series(client: httpx2.Client, expression: str) -> list[dict[str, Any]]:
    """What Prometheus says now; its window is four times as long as the pause between questions."""
    query = expression.replace("$__rate_interval", "60s")
    answer = client.get("/api/v1/query", params={"query": query}).raise_for_status().json()
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def _asked(lab: Lab) -> float:
    """The answers of the gateway, as Prometheus knows them."""
    with figures(lab, lab.node("node1")) as client:
        found = _series(client, "sum(moe_gateway_requests_total)")
    return float(found[0]["value"][1]) if found else 0.0


def _stored(consul: Consul, nomad: Nomad) -> dict[str, int]:
    """What was written through the two APIs: each row with the index of its last write.

    Nomad logs in to Consul for each allocation that starts, by itself too, and is given a token:
    those are no writes of a playbook.
    """
    asked = {
        "Consul": (consul.session, STORED_BY_CONSUL),
        "Nomad": (nomad.session, STORED_BY_NOMAD),
    }
    return {
        f"{product} {path} {_name(row)}": row.get("JobModifyIndex", row["ModifyIndex"])
        for product, (session, paths) in asked.items()
        for path in paths
        for row in session.call("GET", path, params={"recurse": "true"})
        if path != "acl/tokens" or not row.get("AuthMethod")
    }


def _name(row: dict[str, Any]) -> str:
    return str(next(row[key] for key in ("AccessorID", "Key", "Path", "ID", "Name") if key in row))


def _errands(lab: Lab) -> set[str]:
    """The jobs that programs of workflows have become."""
    with agents(lab, lab.node("node1")) as (_, nomad):
        return {row.id for row in nomad.jobs("hearth-code/")}


def _end(lab: Lab, job: str) -> None:
    """Take away an expert that only one test asked."""
    with agents(lab, lab.nodes()[0]) as (_, nomad):
        patiently(lambda: nomad.stop(job, purge=True))
    settle(lab)
