"""Thin on purpose: arguments in, `hearth.cluster.nomad` does the work, names out."""

from typing import Any, ClassVar

from ansible.plugins.action import ActionBase
from hearth.cluster.action import Asked, ControllerAction
from hearth.cluster.endpoint import ARGUMENTS, endpoint_of
from hearth.cluster.errors import NotFound, Unreachable
from hearth.cluster.nomad import Nomad


class ActionModule(ControllerAction, ActionBase):  # type: ignore[misc]
    """Keeps a variable of Nomad."""

    spec: ClassVar[dict[str, Any]] = {
        "argument_spec": {
            **ARGUMENTS,
            "path": {"type": "str", "required": True},
            "items": {"type": "dict", "default": {}, "no_log": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        }
    }

    def work(self, asked: Asked) -> dict[str, Any]:
        try:
            with Nomad(endpoint_of(asked.params)) as nomad:
                differing = keep(asked, nomad)
        except Unreachable as error:
            if not asked.check_mode:
                raise
            asked.warn(f"{error} All items are shown as new.")
            differing = sorted(asked.params["items"])
        lines = "".join(f"{name}: (other than before)\n" for name in differing)
        return {
            "changed": bool(differing),
            "changed_items": differing,
            "diff": {"before": "", "after": lines, "after_header": asked.params["path"]},
        }


def keep(asked: Asked, nomad: Nomad) -> list[str]:
    """Make it so; the names of the items that differ."""
    path = asked.params["path"]
    is_there = True
    try:
        index, found = nomad.variable(path)
    except NotFound:
        is_there, index, found = False, 0, {}
    absent = asked.params["state"] == "absent"
    wanted = {} if absent else _texts(asked.params["items"])
    differing = sorted(k for k in found.keys() | wanted if found.get(k) != wanted.get(k))
    if not differing or asked.check_mode:
        return differing
    if absent and is_there:
        nomad.delete_variable(path, index=index)
    else:
        nomad.put_variable(path, wanted, index=index)
    return differing


def _texts(items: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in items.items()}
