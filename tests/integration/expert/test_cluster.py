"""An expert in a cluster: its entry in a real Consul, and a model spread over real RPC workers."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hearth.cluster.acl.bootstrap import bootstrap_consul
from hearth.cluster.consul import Consul, Instance
from hearth.models.store import ModelStore
from tests.integration.cluster.agents import Agent, consul_agent
from tests.integration.expert import build_engines
from tests.integration.expert.clever import Clever
from tests.integration.expert.running import Expert, Starter, until
from tests.ports import free_port

EXTENDED_INPUTS = [
    "llama_expert/**",
    "hearth/cluster/consul.py",
    "hearth/cluster/client.py",
    "tests/integration/expert/clever.py",
    "tests/integration/expert/running.py",
]
pytestmark = pytest.mark.extended
TOKEN = "e0000000-1111-4222-8333-444444444444"
SERVICE = "llama-expert-smollm2"


@dataclass
class Discovery:
    """A Consul with access control and TLS, and what an expert needs to use it."""

    agent: Agent
    client: Consul
    settings: dict[str, Any]

    def entries(self) -> list[Instance]:
        return self.client.instances(SERVICE)

    def meta(self) -> dict[str, str]:
        """What the one entry of the expert tells; nothing while there is none."""
        return next((dict(entry.meta) for entry in self.entries()), {})


@pytest.fixture(scope="module")
def discovery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Discovery]:
    folder = tmp_path_factory.mktemp("consul")
    token_file = folder / "token"
    token_file.write_text(TOKEN, encoding="ascii")
    with consul_agent(folder) as agent:
        bootstrap_consul(agent.endpoint, TOKEN)
        settings = {
            "consul_url": agent.endpoint.url,
            "consul_ca_file": agent.endpoint.ca_file,
            "consul_token_file": token_file,
        }
        with Consul(agent.known_as(TOKEN)) as client:
            yield Discovery(agent, client, settings)


def test_expert_tells_consul_what_runs_and_takes_it_back(
    embedded: Starter, discovery: Discovery
) -> None:
    """The gateway routes by these facts; an entry that stays behind costs a failed request."""
    given: dict[str, Any] = {"aliases": '["small", "default"]', "cost": 0.5, "slots": 2}
    given |= {"domains": '["talk"]', "fallback": '["big", "huge"]', "auto": "false"}
    with embedded.running(**discovery.settings, **given) as expert:
        until(lambda: len(discovery.entries()) == 1, 120, f"registered; {expert.said()}")
        (entry,) = discovery.entries()

        assert f"http://{entry.address}:{entry.port}" == str(expert.client.base_url).rstrip("/")
        assert entry.tags == ("expert",)
        assert entry.healthy
        told = dict(entry.meta)
        assert told.pop("hearth_version")
        assert told == {
            "expert": "smollm2", "aliases": "small,default", "model": "smollm2",
            "model_reason": "It is the first of the list.", "engine": "xllamacpp",
            "context": "4096", "slots": "2", "tools": "none", "vision": "false",
            "embeddings": "false", "cost": "0.5", "auto": "false",
            "languages": "", "domains": "talk", "fallback": "big,huge",
            "stops_unary": "false", "rpc_workers": "0",
        }  # fmt: skip
        expert.process.terminate()
        assert expert.ended() == 0

    assert discovery.entries() == []


def test_entry_that_consul_lost_is_made_again(embedded: Starter, discovery: Discovery) -> None:
    """An agent whose data was wiped, or who forgot an ill expert, would hide it for ever."""
    with embedded.running(**discovery.settings) as expert:
        until(lambda: len(discovery.entries()) == 1, 120, "registered")
        (entry,) = discovery.entries()
        discovery.client.session.call("PUT", f"agent/service/deregister/{entry.id}")

        until(lambda: len(discovery.entries()) == 1, 120, f"registered again; {expert.said()}")
        # Consul knows it a moment before the log says so.
        until(lambda: expert.said().count("event=registered") >= 2, 120, "it says so")
        assert expert.said().count("event=registered") == 2


@pytest.mark.proves("004-43")
def test_fallback_says_in_consul_and_metrics_why_it_runs(
    embedded: Starter, discovery: Discovery, clever: Clever
) -> None:
    """Whoever wonders about weak answers finds the reason where they look: status page, graph."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    damaged = clever.add(b"not the model", sha256="ab" * 32)
    settings = {**discovery.settings, **damaged, "metrics_port": port}
    with embedded.running(["clever", "smollm2"], **settings) as expert:
        until(lambda: bool(discovery.meta()), 120, f"registered; {expert.said()}")
        expert.chat("Hello", max_tokens=2)
        meta, figures = discovery.meta(), httpx2.get(url, timeout=60).text

    assert meta["model"] == "smollm2"
    assert meta["model_reason"].startswith("clever: ")
    assert "clever.gguf is damaged" in meta["model_reason"]
    assert 'llama_expert_model_serving{model="smollm2"} 1.0' in figures
    assert 'llama_expert_model_serving{model="clever"} 0.0' in figures
    assert "llama_expert_model_rank 1.0" in figures
    assert 'llama_expert_launches_total{model="clever",outcome="unfit"} 1.0' in figures


def test_expert_serves_while_consul_is_away(embedded: Starter, discovery: Discovery) -> None:
    """Discovery is one way to find it; losing it must not cost the model."""
    nowhere = {**discovery.settings, "consul_url": f"https://127.0.0.1:{free_port()}"}
    with embedded.running(**nowhere) as expert:
        expert.chat("Hello", max_tokens=2)
        until(lambda: "event=not_registered" in expert.said(), 120, "it says so")
        expert.process.terminate()
        assert expert.ended() == 0


@dataclass
class Worker:
    """A `ggml-rpc-server` with its log, and its entry in Consul as its job makes it."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path
    discovery: Discovery

    def register(self) -> None:
        self.discovery.client.session.call(
            "PUT", "agent/service/register",
            {"ID": f"rpc-{self.port}", "Name": "llama-rpc", "Address": "127.0.0.1",
             "Port": self.port, "Meta": {"memory_bytes": str(8 << 30)}},
        )  # fmt: skip

    def leave(self) -> None:
        self.discovery.client.session.call("PUT", f"agent/service/deregister/rpc-{self.port}")

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def computed(self) -> int:
        """How many graphs of layers it has computed, by its own account."""
        return self.said().count("compute] device: 0")


@contextmanager
def worker(folder: Path, discovery: Discovery) -> Iterator[Worker]:
    port = free_port()
    log = folder / f"worker-{port}.log"
    command = [str(build_engines.RPC_SERVER), "--host", "127.0.0.1", "--port", str(port), "-t", "1"]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdout=sink, stderr=sink, env={**os.environ, "GGML_RPC_DEBUG": "1"}
        )
    running = Worker(port, process, log, discovery)
    try:
        running.register()
        yield running
    finally:
        running.leave()
        process.kill()
        process.wait()


@pytest.fixture
def spread(model_store: ModelStore, tmp_path: Path, discovery: Discovery) -> Starter:
    """Starts experts that spread their model over the RPC workers of the cluster."""
    if not build_engines.built():
        pytest.skip("llama-server is not compiled here: make test-engines")
    return Starter("llama-server", tmp_path, model_store.root)


def serves_with(discovery: Discovery, workers: int) -> Callable[[], bool]:
    return lambda: discovery.meta().get("rpc_workers") == str(workers)


@pytest.mark.engines
def test_layers_are_computed_on_two_workers_and_the_set_is_followed(
    spread: Starter, discovery: Discovery, tmp_path: Path
) -> None:
    """A model too big for one machine runs on several, and a machine that goes costs seconds."""
    with ExitStack() as started:
        one = started.enter_context(worker(tmp_path, discovery))
        two = started.enter_context(worker(tmp_path, discovery))
        expert = started.enter_context(spread.running(rpc="true", **discovery.settings))
        until(serves_with(discovery, 2), 120, f"spread over two; {expert.said()}")
        before = [one.computed(), two.computed()]
        answer = expert.chat("Tell a long story about a river.", max_tokens=8, ignore_eos=True)
        after = [one.computed(), two.computed()]

        assert answer["usage"]["completion_tokens"] == 8
        assert all(now >= was + 8 for was, now in zip(before, after, strict=True)), one.said()
        assert all("[alloc_buffer] device: 0" in each.said() for each in (one, two))

        two.leave()
        until(serves_with(discovery, 1), 120, f"relaunched with one; {expert.said()}")
        expert.chat("And of Spain?", max_tokens=2)
        two.register()
        until(serves_with(discovery, 2), 120, f"relaunched with both; {expert.said()}")


@pytest.mark.engines
def test_worker_that_does_not_answer_does_not_take_the_expert_down(
    spread: Starter, discovery: Discovery, tmp_path: Path
) -> None:
    """Consul learns late that a machine is gone; until then the small model answers alone."""
    with worker(tmp_path, discovery) as dead:
        dead.process.send_signal(signal.SIGKILL)
        dead.process.wait()
        with spread.running(rpc="true", **discovery.settings) as expert:
            expert_answers(expert)
            until(serves_with(discovery, 0), 120, f"alone; {expert.said()}")

            assert "event=model_skipped model=smollm2" in expert.said()
            assert discovery.meta()["model_reason"].startswith("smollm2: ")


def expert_answers(expert: Expert) -> None:
    """It answers a question."""
    assert expert.chat("Hello", max_tokens=2)["choices"]
