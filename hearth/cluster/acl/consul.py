"""Policies, roles, auth methods, binding rules and tokens of Consul, as declared."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hearth.cluster.acl.change import Change, Declared, differs, only
from hearth.cluster.consul import Consul
from hearth.cluster.errors import Denied, NotFound


@dataclass(frozen=True)
class ConsulAcl:
    """The declared objects of Consul; each entry has the field names of the module `consul_acl`."""

    policies: Sequence[Declared] = ()
    roles: Sequence[Declared] = ()
    auth_methods: Sequence[Declared] = ()
    binding_rules: Sequence[Declared] = ()
    tokens: Sequence[Declared] = ()


@dataclass
class _Writer:
    consul: Consul
    write: bool
    changes: list[Change] = field(default_factory=list)

    def keep(
        self, kind: str, name: str, current: Declared | None, wanted: Declared, path: str
    ) -> None:
        """Write `wanted` if `current` differs from it."""
        if not differs(current, wanted):
            return
        shown = {k: v for k, v in wanted.items() if k != "SecretID"}
        self.changes.append(Change(kind, name, only(current, shown), shown))
        if self.write:
            body = dict(wanted) if current is None else _merged(current, wanted)
            self.consul.session.call("PUT", path, body)

    def read(self, path: str) -> Any:
        """Return an object, None if it is missing; Consul responds 403 for some missing objects."""
        try:
            return self.consul.session.call("GET", path)
        except NotFound:
            return None
        except Denied as error:
            if "not found" in error.answer.lower():
                return None
            raise


def ensure(consul: Consul, wanted: ConsulAcl, *, write: bool = True) -> list[Change]:
    """Write the declared objects, referenced ones first; return the changes.

    `write=False` only returns the changes.
    """
    writer = _Writer(consul, write)
    for policy in wanted.policies:
        _policy(writer, policy)
    for role in wanted.roles:
        _role(writer, role)
    for method in wanted.auth_methods:
        _auth_method(writer, method)
    for rule in wanted.binding_rules:
        _binding_rule(writer, rule)
    for token in wanted.tokens:
        _token(writer, token)
    return writer.changes


def _policy(writer: _Writer, policy: Declared) -> None:
    current = writer.read(f"acl/policy/name/{policy['name']}")
    wanted = {
        "Name": policy["name"],
        "Description": policy.get("description") or "",
        "Rules": policy["rules"],
    }
    writer.keep("policy", policy["name"], current, wanted, _path("acl/policy", current))


def _role(writer: _Writer, role: Declared) -> None:
    current = writer.read(f"acl/role/name/{role['name']}")
    wanted = {
        "Name": role["name"],
        "Description": role.get("description") or "",
        "Policies": _links(role.get("policies")),
    }
    writer.keep("role", role["name"], _sorted(current), wanted, _path("acl/role", current))


def _auth_method(writer: _Writer, method: Declared) -> None:
    current = writer.read(f"acl/auth-method/{method['name']}")
    wanted = {
        "Name": method["name"],
        "Type": method["type"],
        "Description": method.get("description") or "",
        "Config": method["config"],
    }
    path = "acl/auth-method" if current is None else f"acl/auth-method/{method['name']}"
    writer.keep("auth method", method["name"], current, wanted, path)


def _binding_rule(writer: _Writer, rule: Declared) -> None:
    """Write a rule. Rules have no name: auth method and description identify them."""
    method, description = rule["auth_method"], rule["description"]
    rules = writer.read("acl/binding-rules") or []
    current = next(
        (r for r in rules if (r["AuthMethod"], r["Description"]) == (method, description)), None
    )
    wanted = {
        "AuthMethod": method,
        "Description": description,
        "BindType": rule["bind_type"],
        "BindName": rule["bind_name"],
        "Selector": rule.get("selector") or "",
    }
    writer.keep("binding rule", description, current, wanted, _path("acl/binding-rule", current))


def _token(writer: _Writer, token: Declared) -> None:
    """Write a token, which is identified by its secret or, without one, by its accessor."""
    current = _sorted(_find_token(writer, token))
    wanted: dict[str, Any] = {
        "Description": token["description"],
        "Policies": _links(token.get("policies")),
        "Roles": _links(token.get("roles")),
        "NodeIdentities": token.get("node_identities") or [],
        "ServiceIdentities": token.get("service_identities") or [],
    }
    path = "acl/token" if current is None else f"acl/token/{current['AccessorID']}"
    for key, name in (("secret", "SecretID"), ("accessor", "AccessorID")):
        if current is None and token.get(key):
            wanted[name] = token[key]
    writer.keep("token", token["description"], current, wanted, path)


def _find_token(writer: _Writer, token: Declared) -> Any:
    if not token.get("secret"):
        return writer.read(f"acl/token/{token['accessor']}")
    with Consul(replace(writer.consul.endpoint, token=token["secret"])) as own:
        return _Writer(own, write=False).read("acl/token/self")


def _path(root: str, current: Declared | None) -> str:
    return root if current is None else f"{root}/{current['ID']}"


def _links(names: Sequence[str] | None) -> list[dict[str, str]]:
    return [{"Name": name} for name in sorted(names or ())]


def _sorted(current: Any) -> Any:
    """Return the object with sorted links: Consul keeps the order in which they were written."""
    if current is None:
        return None
    links = {
        key: sorted(current.get(key) or [], key=lambda link: str(link["Name"]))
        for key in ("Policies", "Roles")
        if key in current
    }
    return current | links


def _merged(current: Declared, wanted: Declared) -> dict[str, Any]:
    """Return the body of an update, which replaces the whole object: undeclared fields are kept."""
    unchanged = {
        k: v for k, v in current.items() if k not in {"CreateIndex", "ModifyIndex", "Hash"}
    }
    return unchanged | dict(wanted)


def everything_new(wanted: ConsulAcl) -> list[Change]:
    """Return the changes that `ensure` would make to an empty Consul."""
    kinds = [
        ("policy", wanted.policies, "name"),
        ("role", wanted.roles, "name"),
        ("auth method", wanted.auth_methods, "name"),
        ("binding rule", wanted.binding_rules, "description"),
        ("token", wanted.tokens, "description"),
    ]
    return [
        Change(kind, entry[key], None, {k: v for k, v in entry.items() if k != "secret"})
        for kind, entries, key in kinds
        for entry in entries
    ]
