"""Policies and tokens of Nomad, as declared."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hearth.cluster.acl.change import Change, Declared, differs, only
from hearth.cluster.errors import NotFound
from hearth.cluster.nomad import Nomad


@dataclass(frozen=True)
class NomadAcl:
    """The declared objects of Nomad; each entry has the field names of the module `nomad_acl`."""

    policies: Sequence[Declared] = ()
    tokens: Sequence[Declared] = ()


@dataclass
class Ensured:
    """The changes made. `tokens`: name -> `accessor` and `secret`, which only Nomad can choose."""

    changes: list[Change] = field(default_factory=list)
    tokens: dict[str, dict[str, str]] = field(default_factory=dict)


def ensure(nomad: Nomad, wanted: NomadAcl, *, write: bool = True) -> Ensured:
    """Write the declared objects; return the changes and the declared tokens.

    `write=False` only returns the changes.
    """
    result = Ensured()
    for policy in wanted.policies:
        _policy(nomad, policy, result, write=write)
    rows = nomad.session.call("GET", "acl/tokens") if wanted.tokens else []
    for token in wanted.tokens:
        _token(nomad, token, rows, result, write=write)
    return result


def _policy(nomad: Nomad, policy: Declared, result: Ensured, *, write: bool) -> None:
    name = policy["name"]
    try:
        current = nomad.session.call("GET", f"acl/policy/{name}")
    except NotFound:
        current = None
    wanted: dict[str, Any] = {
        "Name": name,
        "Description": policy.get("description") or "",
        "Rules": policy["rules"],
    }
    if job := policy.get("job"):
        wanted["JobACL"] = {"Namespace": "default", "JobID": job}
    if differs(current, wanted):
        result.changes.append(Change("policy", name, only(current, wanted), wanted))
        if write:
            nomad.session.call("POST", f"acl/policy/{name}", wanted)


def _token(nomad: Nomad, token: Declared, rows: list[Any], result: Ensured, *, write: bool) -> None:
    name = token["name"]
    row = next((row for row in rows if row["Name"] == name), None)
    current = nomad.session.call("GET", f"acl/token/{row['AccessorID']}") if row else None
    wanted: dict[str, Any] = {
        "Name": name,
        "Type": token.get("type") or "client",
        "Policies": sorted(token.get("policies") or []),
    }
    if differs(current and current | {"Policies": sorted(current["Policies"] or [])}, wanted):
        result.changes.append(Change("token", name, only(current, wanted), wanted))
        if not write:
            return
        path = f"acl/token/{current['AccessorID']}" if current else "acl/token"
        body = wanted | ({"AccessorID": current["AccessorID"]} if current else {})
        current = nomad.session.call("POST", path, body)
    if current:
        result.tokens[name] = {"accessor": current["AccessorID"], "secret": current["SecretID"]}


def everything_new(wanted: NomadAcl) -> Ensured:
    """Return the changes that `ensure` would make to an empty Nomad."""
    return Ensured(
        [Change("policy", entry["name"], None, entry) for entry in wanted.policies]
        + [Change("token", entry["name"], None, entry) for entry in wanted.tokens]
    )
