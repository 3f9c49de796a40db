"""Real agents for everything that talks to them."""

from collections.abc import Iterator

import pytest

from hearth.cluster.acl.bootstrap import bootstrap_consul, bootstrap_nomad
from hearth.cluster.consul import Consul
from hearth.cluster.nomad import Nomad
from tests.integration.cluster.agents import Agent, consul_agent, nomad_agent, wait_for

CONSUL_TOKEN = "c0000000-1111-4222-8333-444444444444"
NOMAD_TOKEN = "d0000000-1111-4222-8333-444444444444"


@pytest.fixture(scope="session")
def consul_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A Consul whose access control was set up with `CONSUL_TOKEN`."""
    with consul_agent(tmp_path_factory.mktemp("consul")) as agent:
        bootstrap_consul(agent.endpoint, CONSUL_TOKEN)
        yield agent


@pytest.fixture
def consul(consul_server: Agent) -> Iterator[Consul]:
    """Its client with every right."""
    with Consul(consul_server.known_as(CONSUL_TOKEN)) as client:
        yield client


@pytest.fixture(scope="session")
def nomad_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A Nomad whose access control was set up with `NOMAD_TOKEN` and whose node is ready."""
    with nomad_agent(tmp_path_factory.mktemp("nomad")) as agent:
        bootstrap_nomad(agent.endpoint, NOMAD_TOKEN)
        client = Nomad(agent.known_as(NOMAD_TOKEN))
        wait_for(lambda: [node.status for node in client.nodes()] == ["ready"], agent)
        yield agent


@pytest.fixture
def nomad(nomad_server: Agent) -> Iterator[Nomad]:
    """Its client with every right."""
    with Nomad(nomad_server.known_as(NOMAD_TOKEN)) as client:
        yield client
