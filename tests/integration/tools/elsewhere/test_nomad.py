"""Programs in jobs of a real Nomad: as locally, and still there after the agent was killed."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp

from hearth.cluster import binaries
from hearth.cluster.endpoint import Endpoint
from hearth.cluster.nomad import Nomad
from pipecatapp.api.errors import answer_errors_as_openai
from pipecatapp.api.state import errands
from pipecatapp.tools.code.elsewhere.errands import Errands
from tests.integration.cluster.agents import nomad_agent, wait_for
from tests.integration.tools.elsewhere.documents import (
    LONG,
    cluster_engine,
    named,
    outputs_of,
    until,
    work,
)

EXTENDED_INPUTS = [
    "pipecatapp/tools/code/elsewhere/*",
    "nomad_jobs/hearth-code.nomad.hcl",
    "hearth/cluster/*.py",
    "tests/integration/tools/elsewhere/documents.py",
    "tests/integration/cluster/agents.py",
]
pytestmark = [pytest.mark.nomad, pytest.mark.extended]
ROOT = Path(__file__).parents[4]
JOB = ROOT / "nomad_jobs" / "hearth-code.nomad.hcl"


@dataclass
class Cluster:
    """A Nomad that has the job, and what an agent is told of it."""

    endpoint: Endpoint

    def settings(self, own_url: str) -> dict[str, Any]:
        return {
            "own_url": own_url,
            "nomad_url": self.endpoint.url,
            "code_job": "hearth-code",
            "ca_file": str(self.endpoint.ca_file),
        }

    def dispatched(self) -> list[str]:
        """Every job that was dispatched and is not purged."""
        with Nomad(self.endpoint) as nomad:
            rows = nomad.jobs()
        return [row.id for row in rows if row.id.startswith("hearth-code/")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One Nomad for all tests here, with the shipped job."""
    folder = tmp_path_factory.mktemp("nomad")
    with nomad_agent(folder, extra={"acl": {"enabled": False}}) as agent:
        with Nomad(agent.endpoint) as nomad:
            wait_for(lambda: any(node.status == "ready" for node in nomad.nodes()), agent)
        own = {"python": sys.executable, "user": "root", "cpu": "50", "memory_mb": "64"}
        words = [f"-var={name}={value}" for name, value in own.items()]
        where = {"NOMAD_ADDR": agent.endpoint.url, "NOMAD_CACERT": str(agent.endpoint.ca_file)}
        program = str(binaries.find("nomad"))
        subprocess.run(
            [program, "job", "run", *words, str(JOB)], env=os.environ | where, check=True
        )
        yield Cluster(agent.endpoint)


@pytest.fixture
def settings(cluster: Cluster, serve: Callable[[ASGIApp], str], tmp_path: Path) -> dict[str, Any]:
    """What the agent is told; its HTTP side is up, whatever becomes of its engine."""
    app = FastAPI()
    app.state.errands = Errands(tmp_path / "errands")
    answer_errors_as_openai(app)
    app.include_router(errands.router)
    return cluster.settings(serve(app))


@pytest.mark.proves("001-14")
async def test_job_gives_what_the_sandbox_here_gives(
    cluster: Cluster, settings: dict[str, Any], tmp_path: Path
) -> None:
    """The machine that a program runs on must not change what a workflow does with it."""
    (tmp_path / "local").mkdir()
    before = cluster.dispatched()
    async with cluster_engine(tmp_path / "local", work("local"), own_url="") as engine:
        here = await outputs_of(engine, "work")
    async with cluster_engine(tmp_path, work("nomad"), **named(settings)) as engine:
        there = await outputs_of(engine, "work")

    assert there == here
    assert here["work"]["exit_code"] == 3
    assert len(set(cluster.dispatched()) - set(before)) == 1


async def test_job_is_found_again_after_the_agent_was_killed(
    cluster: Cluster, settings: dict[str, Any], tmp_path: Path
) -> None:
    """What runs on another machine goes on while this one restarts, and is not begun again."""
    document, before = LONG.format(where="nomad", image="", wait="sleep 5"), cluster.dispatched()
    module = "tests.integration.tools.elsewhere.victim"
    words = [str(tmp_path), "job", json.dumps(settings), document]
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", module, *words], cwd=ROOT, timeout=240
    )
    assert killed.returncode == -9
    after = cluster.dispatched()

    async with cluster_engine(tmp_path, document, **named(settings)) as engine:
        (run,) = await engine.resume_unfinished()
        ended = await engine.wait(run)

    assert ended.outputs == {"text": "begun\nended\n"}, ended
    assert len(set(after) - set(before)) == 1
    assert set(cluster.dispatched()) == set(after)


async def test_cancelled_run_stops_its_job(
    cluster: Cluster, settings: dict[str, Any], tmp_path: Path
) -> None:
    """A machine of the cluster must not work on for a run that is over."""
    document, before = LONG.format(where="nomad", image="", wait="sleep 100"), cluster.dispatched()
    async with cluster_engine(tmp_path, document, **named(settings)) as engine:
        run = await engine.start("long", {})
        await until(tmp_path, "job")
        await engine.cancel(run)

    assert cluster.dispatched() == before
    assert list((tmp_path / "errands").iterdir()) == []


async def test_job_that_somebody_stopped_fails_its_node(
    cluster: Cluster, settings: dict[str, Any], tmp_path: Path
) -> None:
    """A run must not wait for ever for what will never come."""
    document = LONG.format(where="nomad", image="", wait="sleep 100")
    async with cluster_engine(tmp_path, document, **named(settings)) as engine:
        run = await engine.start("long", {})
        job = (await until(tmp_path, "job")).read_text(encoding="utf-8")
        with Nomad(cluster.endpoint) as nomad:
            await asyncio.to_thread(nomad.stop, job)
        ended = await engine.wait(run)

    assert ended.status == "failed"
    assert job in str(ended.error)
