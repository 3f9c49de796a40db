"""The jobs of experts and RPC workers, on a real Nomad and a real Consul."""

import getpass
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hearth.cluster.acl.bootstrap import bootstrap_nomad
from hearth.cluster.consul import Consul
from hearth.cluster.jobs.deploy import Jobs, Source
from hearth.cluster.nomad import Nomad
from hearth.models.store import ModelStore
from tests.integration.cluster.agents import (
    SLOW_FINGERPRINTS,
    Agent,
    consul_agent,
    nomad_agent,
    wait_for,
)
from tests.integration.expert import build_engines
from tests.integration.expert.running import CHAT, KEY, question, until

EXTENDED_INPUTS = [
    "nomad_jobs/llama-*",
    "ansible/roles/llama_expert/**",
    "ansible/roles/llama_rpc/**",
    "hearth/cluster/jobs/*",
    "llama_expert/**",
    "tests/integration/expert/running.py",
]
pytestmark = [pytest.mark.nomad, pytest.mark.engines, pytest.mark.extended]

TOKEN = "d1000000-1111-4222-8333-444444444444"
JOBS = build_engines.REPOSITORY / "nomad_jobs"
EXPERT, SERVICE = "small", "llama-expert-small"


@dataclass
class Cluster:
    """One machine with Nomad and Consul."""

    nomad: Nomad
    consul: Consul
    agent: Agent
    model_dir: Path

    def plan(self, file: str, variables: dict[str, Any]) -> Any:
        hcl = (JOBS / file).read_text(encoding="utf-8")
        return Jobs(self.nomad).plan(Source(file, hcl, variables))

    def run(self, file: str, variables: dict[str, Any]) -> None:
        """Register the job and wait until Nomad calls it healthy."""
        plan = self.plan(file, variables)
        assert plan.unplaced == {}
        Jobs(self.nomad).register(plan)
        Jobs(self.nomad).wait(plan.id, timeout=180)

    def stop(self, job: str) -> None:
        """End the job and wait until nothing of it runs."""
        self.nomad.session.call("DELETE", f"job/{job}")
        until(lambda: not alive(self.nomad, job), 120, f"{job} has stopped")

    def log(self, task: str) -> str:
        """Everything that a task has written."""
        files = sorted(self.agent.data.glob(f"alloc/*/alloc/logs/{task}.std*.0"))
        return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)

    def expert(self, **more: Any) -> dict[str, Any]:
        return {
            "expert": EXPERT, "models": ["smollm2"], "aliases": ["tiny"], "threads": 1,
            "python": sys.executable, "llama_server": str(build_engines.LLAMA_SERVER),
            "model_dir": str(self.model_dir), "user": getpass.getuser(), "load_seconds": 120,
            "consul_url": self.consul.endpoint.url, "consul_acl": False, "drain_seconds": 2,
            "consul_ca_file": str(self.consul.endpoint.ca_file), **more,
        }  # fmt: skip

    @property
    def worker(self) -> dict[str, Any]:
        program = str(build_engines.RPC_SERVER)
        user = getpass.getuser()
        return {"rpc_server": program, "user": user, "threads": 1, "log_work": True}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, model_store: ModelStore) -> Iterator[Cluster]:
    if not build_engines.built():
        pytest.skip("llama-server is not compiled here: make test-engines")
    with ExitStack() as stack:
        found = stack.enter_context(consul_agent(tmp_path_factory.mktemp("consul"), acl=False))
        consul = stack.enter_context(Consul(found.endpoint))
        at = found.endpoint.url.removeprefix("https://")
        asked = {"address": at, "ssl": True, "ca_file": str(found.endpoint.ca_file)}
        scheduler = {"memory_oversubscription_enabled": True}
        server = {"enabled": True, "bootstrap_expect": 1, "raft_multiplier": 1}
        extra = {
            "consul": {**asked, "client_auto_join": False, "server_auto_join": False},
            "server": {**server, "default_scheduler_config": scheduler},
            "client": {
                "enabled": True,
                "network_interface": "lo",
                "cpu_total_compute": 4000,
                "options": {
                    "driver.allowlist": "raw_exec",
                    "fingerprint.denylist": SLOW_FINGERPRINTS.replace(",consul", ""),
                },
            },
        }
        agent = stack.enter_context(nomad_agent(tmp_path_factory.mktemp("nomad"), extra=extra))
        bootstrap_nomad(agent.endpoint, TOKEN)
        nomad = stack.enter_context(Nomad(agent.known_as(TOKEN)))
        wait_for(lambda: [node.status for node in nomad.nodes()] == ["ready"], agent)
        for path in (f"nomad/jobs/{SERVICE}",):
            variable = {"Path": path, "Items": {"expert_key": KEY}}
            nomad.session.call("PUT", f"var/{path}", variable)
        yield Cluster(nomad, consul, agent, model_store.root)
        for job in nomad.jobs():
            nomad.session.call("DELETE", f"job/{job.id}")
            until(lambda job=job: not alive(nomad, job.id), 60, f"{job.id} has stopped")  # type: ignore[misc]


def alive(nomad: Nomad, job: str) -> list[str]:
    """Allocations of the job that have not ended yet."""
    return [one.id for one in nomad.allocations(job) if one.client_status in ("pending", "running")]


@pytest.mark.proves("004-16")
def test_expert_as_a_job_answers_is_known_to_consul_and_leaves_it(cluster: Cluster) -> None:
    """What the seed's job file promised: Nomad runs it, Consul knows it, the key guards it."""
    cluster.run("llama-expert.nomad.hcl", cluster.expert())
    until(lambda: len(cluster.consul.instances(SERVICE)) == 1, 120, cluster.log("launcher"))
    (entry,) = cluster.consul.instances(SERVICE)
    url = f"http://{entry.address}:{entry.port}{CHAT}"
    asked = question("What is the capital of France?", max_tokens=4)
    key = {"Authorization": f"Bearer {KEY}"}

    answer = httpx2.post(url, json=asked, headers=key, timeout=60)

    assert answer.status_code == 200, answer.text
    assert httpx2.post(url, json=asked, timeout=60).status_code == 401
    assert entry.meta["model"] == "smollm2"
    assert entry.meta["aliases"] == "tiny"
    assert not cluster.plan("llama-expert.nomad.hcl", cluster.expert()).changed
    assert KEY not in cluster.log("launcher")

    # Prometheus finds whatever has the tag `metrics`; the gateway must not ask it anything.
    until(lambda: bool(cluster.consul.instances("expert-launcher")), 120, "the launcher is known")
    (launcher,) = cluster.consul.instances("expert-launcher")
    figures = httpx2.get(f"http://{launcher.address}:{launcher.port}/metrics", timeout=60).text
    assert launcher.tags == ("metrics",)
    assert 'llama_expert_model_serving{model="smollm2"} 1.0' in figures

    cluster.stop(SERVICE)
    until(lambda: cluster.consul.instances(SERVICE) == [], 120, "Consul has forgotten it")


def test_expert_computes_on_the_workers_that_the_system_job_runs(cluster: Cluster) -> None:
    """The worker's own log is the evidence that layers were computed there."""
    cluster.run("llama-rpc.nomad.hcl", cluster.worker)
    until(lambda: len(cluster.consul.instances("llama-rpc", passing=True)) == 1, 120, "listens")
    cluster.run("llama-expert.nomad.hcl", cluster.expert(rpc=True))
    until(lambda: spread_over(cluster) == "1", 120, cluster.log("launcher"))
    (entry,) = cluster.consul.instances(SERVICE)
    before = computed(cluster)

    answer = httpx2.post(
        f"http://{entry.address}:{entry.port}{CHAT}",
        json=question("What is the capital of France?", max_tokens=8),
        headers={"Authorization": f"Bearer {KEY}"},
        timeout=60,
    )

    assert answer.status_code == 200, answer.text
    until(lambda: computed(cluster) >= before + 8, 60, "the worker's log shows the layers")
    assert "[alloc_buffer] device: 0" in cluster.log("worker")
    cluster.stop(SERVICE)
    # Serving an expert must not look like being ill: it answers nobody else then.
    assert len(cluster.consul.instances("llama-rpc", passing=True)) == 1


def computed(cluster: Cluster) -> int:
    """How many graphs of layers the workers have computed, by their own account."""
    return cluster.log("worker").count("compute] device: 0")


def spread_over(cluster: Cluster) -> str:
    """How many workers the registered expert says that it uses."""
    found = cluster.consul.instances(SERVICE)
    return found[0].meta["rpc_workers"] if found else ""


def test_roles_deploy_what_the_lists_say_and_then_leave_it_alone(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A second run of the playbook must not restart an expert that people talk to."""
    lay_out(tmp_path, cluster.model_dir)
    variables = {
        "experts": {"small": {"models": ["smollm2"], "slots": 1, "threads": 1, "context": 1024}},
        "models": {"smollm2": {"ram_bytes": 700_000_000}},
        "experts_deployed": [EXPERT], "sources": {"llama.cpp": {"version": "b1"}},
        "hearth_root": str(tmp_path), "hearth_data_dir": str(tmp_path),
        "hearth_user": getpass.getuser(), "hearth_checkout": str(build_engines.REPOSITORY),
        "cluster_datacenter": "dc1", "cluster_security": "full",
        "cluster_secrets": {"expert_key": KEY, "nomad_management_token": TOKEN},
        "cluster_ca_file": str(cluster.agent.endpoint.ca_file),
        "cluster_loopback": "127.0.0.1", "cluster_ports": {"consul_http": 8500},
        "nomad_url": cluster.agent.endpoint.url, "llama_expert_name": EXPERT,
        "llama_expert_load_seconds": 120, "hearth_version": "1",
    }  # fmt: skip
    (tmp_path / "variables.json").write_text(json.dumps(variables))
    plays = [
        {
            "hosts": "all", "gather_facts": False, "roles": ["llama_rpc", "llama_expert"],
        }
    ]  # fmt: skip
    (tmp_path / "play.json").write_text(json.dumps(plays))
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"), "-i", "one,", "-c", "local",
        "-e", f"@{tmp_path / 'variables.json'}", str(tmp_path / "play.json"),
    ]  # fmt: skip

    said = [
        subprocess.run(
            [*command, *options], cwd=build_engines.REPOSITORY, capture_output=True, text=True,
            check=False, env={**os.environ, "ANSIBLE_STDOUT_CALLBACK": "default"},
        ).stdout
        for options in (["--check", "--diff"], [], [])
    ]  # fmt: skip

    changed = [re.findall(r"changed=(\d+).*failed=(\d+)", text) for text in said]
    assert changed == [[("2", "0")], [("2", "0")], [("0", "0")]], "".join(said)
    assert KEY not in "".join(said)
    cluster.stop(SERVICE)
    cluster.stop("llama-rpc")


def lay_out(root: Path, model_dir: Path) -> None:
    """The places of a machine, as links to what is here."""
    (root / "current").mkdir()
    (root / "current" / "venv").symlink_to(Path(sys.executable).parents[1])
    (root / "llama.cpp").mkdir()
    (root / "llama.cpp" / "current").symlink_to(build_engines.LLAMA_CPP)
    (root / "models").symlink_to(model_dir)
