"""Thin on purpose: arguments in, `hearth.cluster.certificates` does the work, a pair out."""

from datetime import timedelta
from typing import Any, ClassVar

from ansible.plugins.action import ActionBase
from hearth.cluster.action import ControllerAction, TaskArgs
from hearth.cluster.certificates import Pair, issue, read, why_renew


class ActionModule(ControllerAction, ActionBase):  # type: ignore[misc]
    """Keeps a machine's certificate of the cluster's own authority."""

    spec: ClassVar[dict[str, Any]] = {
        "argument_spec": {
            "authority": {"type": "dict", "required": True, "no_log": True},
            "name": {"type": "str", "required": True},
            "names": {"type": "list", "elements": "str", "required": True},
            "current": {"type": "dict", "default": {}, "no_log": False},  # it is returned, too
            "days": {"type": "int", "default": 825},
            "renew_before_days": {"type": "int", "default": 30},
        }
    }

    def work(self, task: TaskArgs) -> dict[str, Any]:
        arguments = task.params
        authority = Pair(arguments["authority"]["certificate"], arguments["authority"]["key"])
        current = Pair(
            arguments["current"].get("certificate", ""), arguments["current"].get("key", "")
        )
        before = timedelta(days=arguments["renew_before_days"])
        reason = "there is none"
        if current.certificate:
            reason = (
                why_renew(current, authority.certificate, arguments["names"], renew_before=before)
                or ""
            )
        if reason:
            current = issue(
                authority, arguments["name"], arguments["names"], days=arguments["days"]
            )
        return {
            "changed": bool(reason),
            "reason": reason,
            "certificate": current.certificate,
            "key": current.key,
            "not_after": read(current.certificate).not_after.isoformat(),
            "diff": {"before": "", "after": f"made anew: {reason}\n" if reason else ""},
        }
