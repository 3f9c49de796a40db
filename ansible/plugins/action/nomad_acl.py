"""Thin on purpose: arguments in, `hearth.cluster.acl` does the work, changes out."""

from typing import Any, ClassVar

from ansible.plugins.action import ActionBase
from hearth.cluster.acl.apply import apply
from hearth.cluster.acl.bootstrap import bootstrap_nomad
from hearth.cluster.acl.change import shown
from hearth.cluster.acl.nomad import Ensured, NomadAcl, ensure, everything_new
from hearth.cluster.action import ControllerAction, TaskArgs
from hearth.cluster.endpoint import ARGUMENTS, Endpoint
from hearth.cluster.nomad import Nomad

NAME = {"type": "str", "required": True}
TEXT = {"type": "str", "default": ""}
NAMES = {"type": "list", "elements": "str", "default": []}
KINDS = {
    "policies": {"name": NAME, "description": TEXT, "rules": NAME, "job": {"type": "str"}},
    "tokens": {
        "name": NAME,
        "type": {"type": "str", "default": "client", "choices": ["client", "management"]},
        "policies": NAMES,
    },
}
LISTS = {
    kind: {"type": "list", "elements": "dict", "default": [], "options": options, "no_log": False}
    for kind, options in KINDS.items()
}


class ActionModule(ControllerAction, ActionBase):  # type: ignore[misc]
    """Keeps the access control of Nomad."""

    spec: ClassVar[dict[str, Any]] = {
        "argument_spec": {**ARGUMENTS, "bootstrap": {"type": "bool", "default": False}, **LISTS},
        "required_if": [("bootstrap", True, ("token",))],
    }

    def work(self, task: TaskArgs) -> dict[str, Any]:
        wanted = NomadAcl(**{kind: task.params[kind] for kind in KINDS})

        def keep(endpoint: Endpoint, *, write: bool) -> Ensured:
            with Nomad(endpoint) as nomad:
                return ensure(nomad, wanted, write=write)

        made, done = apply(task, bootstrap_nomad, keep, lambda: everything_new(wanted))
        return {
            "changed": made or bool(done.changes),
            "bootstrapped": made,
            "changes": [f"{change.kind} {change.name}" for change in done.changes],
            "tokens": done.tokens,
            "diff": shown(done.changes),
        }
