"""Replace the secrets of a running cluster: write new ones, let its agents use them, end the old.

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

Secrets = Mapping[str, Any]
Opens = Callable[[Endpoint], Client]


@dataclass(frozen=True)
class Agents:
    """The endpoints of both agents; their tokens are in the file of secrets."""

    consul: Endpoint
    nomad: Endpoint


def begin(file: SecretFile, kinds: Mapping[str, str], agents: Agents | None) -> None:
    """Create new values for secrets (name -> kind). Management tokens and gossip keys are also
    exchanged in the agents.

    `agents`: None without access control. Raises `ClusterError`; a second call continues an
    interrupted one.
    """
    # Nomad chooses the secrets of its tokens.
    secrets = file.renew({name: kind for name, kind in kinds.items() if name != NOMAD})
    if agents is None:
        return
    with Consul(_usable(Consul, agents.consul, secrets, CONSUL)) as consul:
        if CONSUL in kinds:
            _admit(consul, secrets[CONSUL])
        if CONSUL_GOSSIP in kinds:
            _exchange_in_consul(consul.session, secrets[CONSUL_GOSSIP])
    with Nomad(_usable(Nomad, agents.nomad, secrets, NOMAD)) as nomad:
        if NOMAD in kinds and f"{NOMAD}{BEFORE}" not in secrets:
            file.replace({NOMAD: _successor(nomad), f"{NOMAD}{BEFORE}": secrets[NOMAD]})
        if NOMAD_GOSSIP in kinds:
            _exchange_in_nomad(nomad.session, secrets[NOMAD_GOSSIP])


def end(file: SecretFile, agents: Agents | None) -> list[str]:
    """Revoke and remove the replaced secrets; return their names."""
    secrets = file.read()
    names = [name for name in secrets if f"{name}{BEFORE}" in secrets]
    if agents is not None:
        for name in names:
            if name == NOMAD:
                _revoke(Nomad, agents.nomad, secrets[NOMAD], secrets[f"{name}{BEFORE}"])
            elif name.endswith("_token"):
                _revoke(Consul, agents.consul, secrets[CONSUL], secrets[f"{name}{BEFORE}"])
    if names:
        alone = {name: _alone(secrets[name]) for name in names if isinstance(secrets[name], dict)}
        file.replace(alone, forgotten=[f"{name}{BEFORE}" for name in names])
    return names


def _alone(authority: dict[str, str]) -> dict[str, str]:
    """Return an authority without the certificate of its predecessor."""
    first, end, _ = authority["certificate"].partition("-----END CERTIFICATE-----\n")
    return authority | {"certificate": first + end}


def _usable(opens: Opens, at: Endpoint, secrets: Secrets, name: str) -> Endpoint:
    """Return the endpoint with the old token if it still works, else with the new one."""
    before = secrets.get(f"{name}{BEFORE}")
    if before and _own_token(opens, replace(at, token=before)):
        return replace(at, token=before)
    return replace(at, token=secrets[name])


def _own_token(opens: Opens, at: Endpoint) -> dict[str, Any] | None:
    """Return the token of the endpoint as the agents have it; None if it is unknown to them."""
    with opens(at) as client, suppress(Denied):
        own_token: dict[str, Any] = client.session.call("GET", "acl/token/self")
        return own_token
    return None


def _admit(consul: Consul, secret: str) -> None:
    """Create a second management token, unless it exists."""
    if _own_token(Consul, replace(consul.endpoint, token=secret)) is None:
        ours = {
            "SecretID": secret,
            "Description": "Management",
            "Policies": [{"ID": GLOBAL_MANAGEMENT}],
        }
        consul.session.call("PUT", "acl/token", ours)


def _successor(nomad: Nomad) -> str:
    """Return the secret of a second management token; the same one in every call."""
    name = f"Management after {nomad.session.call('GET', 'acl/token/self')['AccessorID']}"
    return ensure(nomad, NomadAcl(tokens=[{"name": name, "type": "management"}])).tokens[name][
        "secret"
    ]


def _revoke(opens: Opens, at: Endpoint, management: str, secret: str) -> None:
    own_token = _own_token(opens, replace(at, token=secret))
    if own_token is not None:
        with opens(replace(at, token=management)) as client:
            client.session.call("DELETE", f"acl/token/{own_token['AccessorID']}")


def _exchange_in_consul(session: Session, key: str) -> None:
    """Replace the gossip key. Agents ignore the key in their settings once they have stored one."""
    pools = session.call("GET", "operator/keyring")
    keys = {installed for pool in pools for installed in pool["Keys"]}
    if keys == {key}:
        return
    session.call("POST", "operator/keyring", {"Key": key})
    session.call("PUT", "operator/keyring", {"Key": key})
    for old in keys - {key}:
        session.call("DELETE", "operator/keyring", {"Key": old})


def _exchange_in_nomad(session: Session, key: str) -> None:
    keys = set(session.call("GET", "agent/keyring/list")["Keys"])
    if keys == {key}:
        return
    session.call("PUT", "agent/keyring/install", {"Key": key})
    session.call("PUT", "agent/keyring/use", {"Key": key})
    for old in keys - {key}:
        session.call("PUT", "agent/keyring/remove", {"Key": old})
