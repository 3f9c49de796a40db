"""Thin on purpose: arguments in, `hearth.cluster.nomad` does the work, names out."""

from typing import Any, ClassVar

from ansible.plugins.action import ActionBase
from hearth.cluster.action import ControllerAction, TaskArgs
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

    def work(self, task: TaskArgs) -> dict[str, Any]:
        try:
            with Nomad(endpoint_of(task.params)) as nomad:
                differing = keep(task, nomad)
        except Unreachable as error:
            if not task.check_mode:
                raise
            task.warn(f"{error} All items are shown as new.")
            differing = sorted(task.params["items"])
        lines = "".join(f"{name}: (other than before)\n" for name in differing)
        return {
            "changed": bool(differing),
            "changed_items": differing,
            "diff": {"before": "", "after": lines, "after_header": task.params["path"]},
        }


def keep(task: TaskArgs, nomad: Nomad) -> list[str]:
    """Make it so; the names of the items that differ."""
    path = task.params["path"]
    is_there = True
    try:
        index, found = nomad.variable(path)
    except NotFound:
        is_there, index, found = False, 0, {}
    absent = task.params["state"] == "absent"
    wanted = {} if absent else _texts(task.params["items"])
    differing = sorted(k for k in found.keys() | wanted if found.get(k) != wanted.get(k))
    if not differing or task.check_mode:
        return differing
    if absent and is_there:
        nomad.delete_variable(path, index=index)
    else:
        nomad.put_variable(path, wanted, index=index)
    return differing


def _texts(items: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in items.items()}
