"""The modules for access control, run by Ansible against real agents."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hearth.cluster.acl.bootstrap import bootstrap_consul, bootstrap_nomad
from hearth.cluster.consul import Consul
from hearth.cluster.errors import Denied
from hearth.cluster.nomad import Nomad
from hearth.cluster.secrets import SecretFile
from tests.integration.cluster.agents import Agent, consul_agent, nomad_agent
from tests.integration.cluster.conftest import CONSUL_TOKEN, NOMAD_TOKEN
from tests.integration.cluster.playing import play

EXTENDED_INPUTS = [
    "ansible/plugins/action/*",
    "ansible/plugins/modules/*_acl.py",
    "hearth/cluster/*.py",
    "tests/integration/cluster/*.py",
]
pytestmark = pytest.mark.extended
AGENT_TOKEN = "a0000000-1111-4222-8333-444444444444"
STRANGER = "e0000000-1111-4222-8333-444444444444"
PUBLIC_KEY = (
    ec.generate_private_key(ec.SECP256R1())
    .public_key()
    .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    .decode()
)
CONSUL_DECLARED = {
    "bootstrap": True,
    "policies": [
        {"name": "tasks", "description": "Read", "rules": 'service_prefix "" { policy = "read" }'},
        {"name": "more", "rules": 'node_prefix "" { policy = "read" }'},
    ],
    "roles": [{"name": "nomad-default-tasks", "policies": ["tasks", "more"]}],
    "auth_methods": [
        {
            "name": "nomad-workloads",
            "config": {
                "JWTValidationPubKeys": [PUBLIC_KEY],
                "JWTSupportedAlgs": ["ES256"],
                "BoundAudiences": ["consul.io"],
                "ClaimMappings": {"nomad_service": "nomad_service"},
            },
        }
    ],
    "binding_rules": [
        {
            "auth_method": "nomad-workloads",
            "description": "Services register themselves",
            "bind_type": "service",
            "bind_name": "${value.nomad_service}",
            "selector": '"nomad_service" in value',
        }
    ],
    "tokens": [
        {"description": "Agent", "secret": AGENT_TOKEN, "policies": ["tasks"]},
        {
            "description": "Anonymous Token",
            "accessor": "00000000-0000-0000-0000-000000000002",
            "policies": ["tasks"],
        },
    ],
}


ROTATED = {
    "consul_agent_token": "token", "consul_gossip_key": "gossip_key",
    "consul_management_token": "token", "nomad_gossip_key": "gossip_key",
    "nomad_management_token": "token",
}  # fmt: skip


def _asks(agent: Agent, token: str, **given: Any) -> dict[str, Any]:
    return {
        "url": agent.endpoint.url,
        "ca_file": str(agent.endpoint.ca_file),
        "token": token,
    } | given


def test_consul_is_set_up_once_and_then_left_alone(tmp_path: Path) -> None:
    """A second run of the playbook writes nothing, and no secret is ever shown."""
    with consul_agent(tmp_path) as agent:
        task = {"consul_acl": _asks(agent, CONSUL_TOKEN, **CONSUL_DECLARED)}
        first, second, output = play(tmp_path, [task, task], "--diff", "-vv")
        with Consul(agent.known_as(AGENT_TOKEN)) as known:
            itself = known.session.call("GET", "acl/token/self")

    assert first["bootstrapped"]
    assert first["changes"] == [
        "policy tasks", "policy more", "role nomad-default-tasks", "auth method nomad-workloads",
        "binding rule Services register themselves", "token Agent", "token Anonymous Token",
    ]  # fmt: skip
    assert (second["changed"], second["changes"]) == (False, [])
    assert [policy["Name"] for policy in itself["Policies"]] == ["tasks"]
    assert "policy tasks" in output
    assert CONSUL_TOKEN not in output
    assert AGENT_TOKEN not in output


def test_check_mode_writes_nothing_to_consul(tmp_path: Path) -> None:
    """Looking first must be safe on a virgin Consul, and on one that is set up."""
    with consul_agent(tmp_path) as agent:
        task = {"consul_acl": _asks(agent, CONSUL_TOKEN, **CONSUL_DECLARED)}
        virgin, _ = play(tmp_path, [task], "--check", "--diff")
        _done, _ = play(tmp_path, [task])
        changed: dict[str, Any] = CONSUL_DECLARED | {
            "policies": [{"name": "tasks", "rules": 'service_prefix "" { policy = "write" }'}]
        }
        more = {"consul_acl": _asks(agent, CONSUL_TOKEN, **changed)}
        looked, _ = play(tmp_path, [more], "--check", "--diff")
        again, _ = play(tmp_path, [task])

    assert (virgin["changed"], virgin["bootstrapped"], len(virgin["changes"])) == (True, True, 7)
    assert looked["changes"] == ["policy tasks"]
    assert "read" in looked["diff"]["before"]["policy tasks"]["Rules"]
    assert not again["changed"]


def test_check_mode_shows_all_where_nobody_answers_yet(tmp_path: Path) -> None:
    """Before the first run there is no Consul to ask; the whole of it is shown as new."""
    nobody = {"url": "http://127.0.0.1:9", "token": CONSUL_TOKEN, **CONSUL_DECLARED}

    looked, output = play(tmp_path, [{"consul_acl": nobody}], "--check", "--diff")

    assert looked["changed"]
    assert len(looked["changes"]) == 7
    assert "Nobody answers at http://127.0.0.1:9" in output


def test_lost_token_of_consul_fails_with_the_recipe(consul_server: Agent, tmp_path: Path) -> None:
    """The failed task itself says what root has to do."""
    task = {"consul_acl": _asks(consul_server, STRANGER, bootstrap=True)}

    failed, _ = play(tmp_path, [task], fails=True)

    assert failed["failed"]
    assert "acl-bootstrap-reset" in failed["msg"]


@pytest.mark.nomad
def test_nomad_is_set_up_once_and_then_left_alone(tmp_path: Path) -> None:
    """A second run writes nothing; a token keeps its secret and works."""
    declared = {
        "bootstrap": True,
        "policies": [
            {"name": "status", "rules": 'namespace "default" { policy = "read" }'},
            {"name": "own", "rules": 'namespace "default" { policy = "read" }', "job": "web"},
        ],
        "tokens": [{"name": "watcher", "policies": ["status"]}],
    }
    with nomad_agent(tmp_path) as agent:
        task = {"nomad_acl": _asks(agent, NOMAD_TOKEN, **declared)}
        virgin, _ = play(tmp_path, [task], "--check")
        first, second, output = play(tmp_path, [task, task], "--diff")
        secret = first["tokens"]["watcher"]["secret"]
        with Nomad(agent.known_as(secret)) as watcher:
            jobs = watcher.jobs()

    assert (virgin["changed"], virgin["changes"]) == (True, first["changes"])
    assert first["changes"] == ["policy status", "policy own", "token watcher"]
    assert (second["changed"], second["tokens"]) == (False, first["tokens"])
    assert jobs == []
    assert NOMAD_TOKEN not in output


@dataclass(frozen=True)
class Replaced:
    """Agents whose secrets were replaced while they ran: the values before, those that the first
    run made, the file at the end, and what runs said and answered."""

    consul: Agent
    nomad: Agent
    old: dict[str, str]
    new: dict[str, str]
    kept: dict[str, str]
    said: str
    answers: list[dict[str, Any]]


@pytest.fixture(scope="module")
def replaced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replaced]:
    """A run that begins twice, as one that was cut short does, and ends twice."""
    folder = tmp_path_factory.mktemp("rotation")
    file = SecretFile(folder / "home.vault.yaml", "pw")
    old = file.ensure(ROTATED).values
    for name in ("consul", "nomad"):
        (folder / name).mkdir()
    with (
        consul_agent(folder / "consul", gossip=old["consul_gossip_key"]) as consul,
        nomad_agent(folder / "nomad", client=False, gossip=old["nomad_gossip_key"]) as nomad,
    ):
        bootstrap_consul(consul.endpoint, old["consul_management_token"])
        bootstrap_nomad(nomad.endpoint, old["nomad_management_token"])
        with Consul(consul.known_as(old["consul_management_token"])) as client:
            agents = {"SecretID": old["consul_agent_token"], "Description": "Consul agents"}
            client.session.call("PUT", "acl/token", agents)
        asked = {
            "path": str(file.path), "vault_password": "pw",
            "ca_file": str(_both(folder, consul, nomad)),
            "consul_url": consul.endpoint.url, "nomad_url": nomad.endpoint.url,
        }  # fmt: skip
        begun = {"secret_rotation": {**asked, "state": "begun", "secrets": ROTATED}}
        ended = {"secret_rotation": {**asked, "state": "ended"}}
        *_, said = play(folder, [begun], "-vv")
        new = file.read()
        *answers, more = play(folder, [begun, ended, ended], "-vv")
        yield Replaced(consul, nomad, old, new, file.read(), said + more, answers)


@pytest.mark.nomad
def test_agents_that_run_take_other_keys_of_gossip(replaced: Replaced) -> None:
    """What stands in their settings they ignore, once they have kept a key."""
    with Consul(replaced.consul.known_as(replaced.new["consul_management_token"])) as consul:
        (pool,) = consul.session.call("GET", "operator/keyring")
    with Nomad(replaced.nomad.known_as(replaced.new["nomad_management_token"])) as nomad:
        ring = nomad.session.call("GET", "agent/keyring/list")

    assert replaced.new["consul_gossip_key"] != replaced.old["consul_gossip_key"]
    assert set(pool["Keys"]) == {replaced.new["consul_gossip_key"]}
    assert set(ring["Keys"]) == {replaced.new["nomad_gossip_key"]}


@pytest.mark.nomad
def test_tokens_of_before_open_nothing_any_more(replaced: Replaced) -> None:
    """A machine was stolen, and what it knew with it."""
    refused = []
    for product, agent, name in (
        (Consul, replaced.consul, "consul_management_token"),
        (Consul, replaced.consul, "consul_agent_token"),
        (Nomad, replaced.nomad, "nomad_management_token"),
    ):
        with product(agent.known_as(replaced.old[name])) as nobody, pytest.raises(Denied):
            nobody.session.call("GET", "acl/token/self")
        refused.append(name)

    assert sorted(refused) == [name for name in ROTATED if name.endswith("token")]


@pytest.mark.nomad
def test_rotation_that_was_cut_short_goes_on_with_the_same_values(replaced: Replaced) -> None:
    """Others would be a third set that half of the machines know. None of them is ever shown."""
    again, ended, nothing = replaced.answers

    assert {name: replaced.new[name] for name in ROTATED} == replaced.kept
    assert (again["changed"], nothing["changed"]) == (True, False)
    assert ended["rotated"] == list(ROTATED)
    for secret in {*replaced.old.values(), *replaced.new.values()}:
        assert secret not in replaced.said


def _both(folder: Path, *agents: Agent) -> Path:
    """The authorities of agents, each of which has its own here."""
    file = folder / "both.pem"
    file.write_text("".join(Path(str(one.endpoint.ca_file)).read_text() for one in agents))
    return file
