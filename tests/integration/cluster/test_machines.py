"""What the status page asks of a real Nomad: measurements of its machines, and a restart."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from hearth.cluster.async_nomad import AsyncNomad
from hearth.cluster.jobs.deploy import Jobs, Source
from hearth.cluster.nomad import Nomad
from hearth.service.settings import trusting
from pipecatapp.tools.cluster.nomad import NomadView
from pipecatapp.tools.cluster.places import NotRestarted
from tests.integration.cluster.agents import Agent, wait_for
from tests.integration.cluster.conftest import NOMAD_TOKEN

pytestmark = pytest.mark.nomad

SLEEPER = """
job "sleeper" {
  group "one" {
    task "run" {
      driver       = "raw_exec"
      kill_timeout = "1s"
      config {
        command = "/bin/sleep"
        args    = ["600"]
      }
    }
  }
}
"""
AGENT_RULES = 'namespace "default" { policy = "read" } node { policy = "read" }'
"""What the role pipecatapp allows the agent, without its right to dispatch jobs."""


@pytest.fixture
def allocation(nomad: Nomad, nomad_server: Agent) -> Iterator[str]:
    """A running allocation."""
    jobs = Jobs(nomad)
    jobs.register(jobs.plan(Source("sleeper", SLEEPER)))
    wait_for(lambda: any(one.runs for one in nomad.allocations("sleeper")), nomad_server)
    yield nomad.allocations("sleeper")[0].id
    nomad.stop("sleeper", purge=True)


@pytest.fixture
def agent_token(nomad_server: Agent) -> str:
    """A token with the rights of the agent."""
    endpoint = nomad_server.endpoint
    with httpx2.Client(
        base_url=endpoint.url,
        verify=trusting(endpoint.ca_file),
        headers={"x-nomad-token": NOMAD_TOKEN},
    ) as http:
        policy = {"Name": "page", "Rules": AGENT_RULES}
        http.post("/v1/acl/policy/page", json=policy).raise_for_status()
        token = {"Name": "page", "Type": "client", "Policies": ["page"]}
        made = http.post("/v1/acl/token", json=token).raise_for_status().json()
    return str(made["SecretID"])


@asynccontextmanager
async def view(server: Agent, token: str, tmp_path: Path) -> AsyncIterator[NomadView]:
    file = tmp_path / "nomad-token"
    file.write_text(token, encoding="ascii")
    tls = trusting(server.endpoint.ca_file)
    async with AsyncNomad(server.endpoint.url, timeout=30, token_file=file, tls=tls) as client:
        yield NomadView(client)


async def test_machines_are_measured_with_the_rights_of_the_agent(
    nomad_server: Agent, agent_token: str, tmp_path: Path
) -> None:
    """The page needs no agent of its own on each machine."""
    async with view(nomad_server, agent_token, tmp_path) as nomad:
        (stats,) = (await nomad.measure()).values()

    assert stats.cpu_percent is not None
    assert 0 <= stats.cpu_percent <= 100.5
    assert stats.memory_total is not None
    assert stats.memory_used is not None
    assert 0 < stats.memory_used < stats.memory_total
    assert stats.disk_total is not None
    assert stats.disk_total > 0
    assert stats.uptime_seconds is not None
    assert stats.uptime_seconds > 0


async def test_restart_without_the_right_is_answered_with_the_command(
    nomad_server: Agent, agent_token: str, allocation: str, tmp_path: Path
) -> None:
    """The agent reads jobs; whoever administers the cluster restarts them."""
    async with view(nomad_server, agent_token, tmp_path) as nomad:
        with pytest.raises(NotRestarted, match="does not let the agent restart") as caught:
            await nomad.restart(allocation)

    assert caught.value.command == f"nomad alloc restart {allocation}"


async def test_allocation_is_restarted_where_the_token_has_the_right(
    nomad: Nomad, nomad_server: Agent, allocation: str, tmp_path: Path
) -> None:
    """The same allocation runs on with a new process."""
    async with view(nomad_server, NOMAD_TOKEN, tmp_path) as page:
        await page.restart(allocation)

    endpoint = nomad_server.endpoint
    with httpx2.Client(
        base_url=endpoint.url,
        verify=trusting(endpoint.ca_file),
        headers={"x-nomad-token": NOMAD_TOKEN},
    ) as http:

        def restarts() -> int:
            found = http.get(f"/v1/allocation/{allocation}").raise_for_status().json()
            return int(found["TaskStates"]["run"]["Restarts"])

        wait_for(lambda: restarts() == 1, nomad_server)
    assert [one.id for one in nomad.allocations("sleeper")] == [allocation]
