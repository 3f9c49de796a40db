"""Thin on purpose: arguments in, `hearth.cluster.acl.rotation` does the work, names out."""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible.plugins.action import ActionBase
from hearth.cluster.acl.rotation import Agents, begin, end
from hearth.cluster.endpoint import Endpoint
from hearth.cluster.errors import ClusterError
from hearth.cluster.secrets import SecretFile

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "state": {"type": "str", "required": True, "choices": ["begun", "ended"]},
    "secrets": {"type": "dict", "default": {}},
    "consul_url": {"type": "str"},
    "nomad_url": {"type": "str"},
    "ca_file": {"type": "path"},
    "vault_password": {"type": "str"},
}
LEADER_SECONDS = 120.0


class ActionModule(ActionBase):
    """No other process sees a secret, and none is ever shown."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """One half of the exchange."""
        result = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(
            ARGUMENTS, required_together=[["consul_url", "nomad_url"]]
        )
        names = sorted(map(str, given["secrets"]))
        if self._task.check_mode:
            return result | {"changed": bool(names), "rotated": names}
        password = given["vault_password"] or self._known_password()
        file = SecretFile(Path(str(given["path"])), password)
        try:
            if given["state"] == "begun":
                begin(file, {str(n): str(k) for n, k in given["secrets"].items()}, _agents(given))
            else:
                names = end(file, _agents(given))
        except ClusterError as error:
            raise AnsibleActionFail(str(error)) from error
        return result | {"changed": bool(names), "rotated": names}

    def _known_password(self) -> str:
        known = self._loader._vault.secrets or []
        return bytes(known[0][1].bytes).decode() if known else ""


def _agents(given: dict[str, Any]) -> Agents | None:
    if not given["consul_url"]:
        return None
    ca_file = Path(str(given["ca_file"])) if given["ca_file"] else None
    consul, nomad = (
        Endpoint(str(given[name]), ca_file=ca_file, leader_timeout=LEADER_SECONDS)
        for name in ("consul_url", "nomad_url")
    )
    return Agents(consul, nomad)
