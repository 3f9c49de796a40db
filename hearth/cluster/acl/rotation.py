"""Other secrets for a running cluster: written down, taken by its agents, then the old ones end.

From `begin` to `end` the file of secrets holds both values of each, so that an
interrupted run continues with the same new ones. The playbook distributes them.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from hearth.cluster.acl.bootstrap import GLOBAL_MANAGEMENT
from hearth.cluster.acl.nomad import NomadAcl, ensure
from hearth.cluster.client import Client
from hearth.cluster.consul import Consul
from hearth.cluster.endpoint import Endpoint, Session
from hearth.cluster.errors import Denied
from hearth.cluster.nomad import Nomad
from hearth.cluster.secrets import BEFORE, SecretFile

CONSUL: Final = "consul_management_token"
NOMAD: Final = "nomad_management_token"
CONSUL_GOSSIP: Final = "consul_gossip_key"
NOMAD_GOSSIP: Final = "nomad_gossip_key"

Known = Mapping[str, Any]
Opens = Callable[[Endpoint], Client]


@dataclass(frozen=True)
class Agents:
    """Where they answer; their tokens are in the file of secrets."""

    consul: Endpoint
    nomad: Endpoint


def begin(file: SecretFile, kinds: Mapping[str, str], agents: Agents | None) -> None:
    """Make new values for secrets of name -> kind, and have the agents take those that only they
    can exchange: the tokens that may do everything, and the keys of gossip.

    `agents`: None where they have no access control. Raises `ClusterError`; called again, it goes
    on where it was.
    """
    # Nomad chooses the secrets of its tokens.
    known = file.renew({name: kind for name, kind in kinds.items() if name != NOMAD})
    if agents is None:
        return
    with Consul(_usable(Consul, agents.consul, known, CONSUL)) as consul:
        if CONSUL in kinds:
            _admit(consul, known[CONSUL])
        if CONSUL_GOSSIP in kinds:
            _exchange_in_consul(consul.session, known[CONSUL_GOSSIP])
    with Nomad(_usable(Nomad, agents.nomad, known, NOMAD)) as nomad:
        if NOMAD in kinds and f"{NOMAD}{BEFORE}" not in known:
            file.replace({NOMAD: _successor(nomad), f"{NOMAD}{BEFORE}": known[NOMAD]})
        if NOMAD_GOSSIP in kinds:
            _exchange_in_nomad(nomad.session, known[NOMAD_GOSSIP])


def end(file: SecretFile, agents: Agents | None) -> list[str]:
    """End what was replaced: nobody is let in with it any more. The names that were."""
    known = file.read()
    names = [name for name in known if f"{name}{BEFORE}" in known]
    if agents is not None:
        for name in names:
            if name == NOMAD:
                _revoke(Nomad, agents.nomad, known[NOMAD], known[f"{name}{BEFORE}"])
            elif name.endswith("_token"):
                _revoke(Consul, agents.consul, known[CONSUL], known[f"{name}{BEFORE}"])
    if names:
        alone = {name: _alone(known[name]) for name in names if isinstance(known[name], dict)}
        file.replace(alone, forgotten=[f"{name}{BEFORE}" for name in names])
    return names


def _alone(authority: dict[str, str]) -> dict[str, str]:
    """Without the certificate of the authority before."""
    first, end, _ = authority["certificate"].partition("-----END CERTIFICATE-----\n")
    return authority | {"certificate": first + end}


def _usable(opens: Opens, at: Endpoint, known: Known, name: str) -> Endpoint:
    """With that one of both tokens that works; a cluster that knows neither says so later."""
    before = known.get(f"{name}{BEFORE}")
    if before and _itself(opens, replace(at, token=before)):
        return replace(at, token=before)
    return replace(at, token=known[name])


def _itself(opens: Opens, at: Endpoint) -> dict[str, Any] | None:
    """Return the token of the endpoint as the agents have it; None if it is unknown to them."""
    with opens(at) as client, suppress(Denied):
        found: dict[str, Any] = client.session.call("GET", "acl/token/self")
        return found
    return None


def _admit(consul: Consul, secret: str) -> None:
    """A second token that may do everything."""
    if _itself(Consul, replace(consul.endpoint, token=secret)) is None:
        ours = {
            "SecretID": secret,
            "Description": "Management",
            "Policies": [{"ID": GLOBAL_MANAGEMENT}],
        }
        consul.session.call("PUT", "acl/token", ours)


def _successor(nomad: Nomad) -> str:
    """The secret of a token that may do everything, too; the same, however often this is asked."""
    name = f"Management after {nomad.session.call('GET', 'acl/token/self')['AccessorID']}"
    return ensure(nomad, NomadAcl(tokens=[{"name": name, "type": "management"}])).tokens[name][
        "secret"
    ]


def _revoke(opens: Opens, at: Endpoint, management: str, secret: str) -> None:
    found = _itself(opens, replace(at, token=secret))
    if found is not None:
        with opens(replace(at, token=management)) as client:
            client.session.call("DELETE", f"acl/token/{found['AccessorID']}")


def _exchange_in_consul(session: Session, key: str) -> None:
    """Agents ignore the key of their settings once they have kept one."""
    pools = session.call("GET", "operator/keyring")
    there = {found for pool in pools for found in pool["Keys"]}
    if there == {key}:
        return
    session.call("POST", "operator/keyring", {"Key": key})
    session.call("PUT", "operator/keyring", {"Key": key})
    for old in there - {key}:
        session.call("DELETE", "operator/keyring", {"Key": old})


def _exchange_in_nomad(session: Session, key: str) -> None:
    there = set(session.call("GET", "agent/keyring/list")["Keys"])
    if there == {key}:
        return
    session.call("PUT", "agent/keyring/install", {"Key": key})
    session.call("PUT", "agent/keyring/use", {"Key": key})
    for old in there - {key}:
        session.call("PUT", "agent/keyring/remove", {"Key": old})
