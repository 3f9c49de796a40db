"""Thin on purpose: arguments in, `hearth.cluster.acl` does the work, changes out."""

from typing import Any, ClassVar

from ansible.plugins.action import ActionBase
from hearth.cluster.acl.apply import apply
from hearth.cluster.acl.bootstrap import bootstrap_consul
from hearth.cluster.acl.change import Change, shown
from hearth.cluster.acl.consul import ConsulAcl, ensure, everything_new
from hearth.cluster.action import ControllerAction, TaskArgs
from hearth.cluster.consul import Consul
from hearth.cluster.endpoint import ARGUMENTS, Endpoint

NAME = {"type": "str", "required": True}
TEXT = {"type": "str", "default": ""}
NAMES = {"type": "list", "elements": "str", "default": []}
DICTS = {"type": "list", "elements": "dict", "default": []}
KINDS = {
    "policies": {"name": NAME, "description": TEXT, "rules": NAME},
    "roles": {"name": NAME, "description": TEXT, "policies": NAMES},
    "auth_methods": {
        "name": NAME,
        "type": {"type": "str", "default": "jwt"},
        "description": TEXT,
        "config": {"type": "dict", "required": True},
    },
    "binding_rules": {
        "auth_method": NAME,
        "description": NAME,
        "bind_type": {"type": "str", "required": True, "choices": ["service", "role", "node"]},
        "bind_name": NAME,
        "selector": TEXT,
    },
    "tokens": {
        "description": NAME,
        "secret": {"type": "str", "no_log": True},
        "accessor": {"type": "str"},
        "policies": NAMES,
        "roles": NAMES,
        "node_identities": DICTS,
        "service_identities": DICTS,
    },
}
LISTS: dict[str, Any] = {
    kind: {"type": "list", "elements": "dict", "default": [], "options": options}
    for kind, options in KINDS.items()
}
LISTS["tokens"] |= {"required_one_of": [["secret", "accessor"]], "no_log": False}


class ActionModule(ControllerAction, ActionBase):  # type: ignore[misc]
    """Keeps the access control of Consul."""

    spec: ClassVar[dict[str, Any]] = {
        "argument_spec": {**ARGUMENTS, "bootstrap": {"type": "bool", "default": False}, **LISTS},
        "required_if": [("bootstrap", True, ("token",))],
    }

    def work(self, task: TaskArgs) -> dict[str, Any]:
        wanted = ConsulAcl(**{kind: task.params[kind] for kind in KINDS})

        def keep(endpoint: Endpoint, *, write: bool) -> list[Change]:
            with Consul(endpoint) as consul:
                return ensure(consul, wanted, write=write)

        made, changes = apply(task, bootstrap_consul, keep, lambda: everything_new(wanted))
        return {
            "changed": made or bool(changes),
            "bootstrapped": made,
            "changes": [f"{change.kind} {change.name}" for change in changes],
            "diff": shown(changes),
        }
