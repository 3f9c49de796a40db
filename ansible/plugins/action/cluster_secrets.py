"""Makes the secrets of the cluster inside Ansible, with the vault password that it already has."""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible.plugins.action import ActionBase
from hearth.cluster.errors import ClusterError
from hearth.cluster.secrets import SecretFile

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "secrets": {"type": "dict", "required": True},
    "vault_password": {"type": "str"},
}


class ActionModule(ActionBase):
    """Nobody is asked a second time, no other process sees a secret, and none is ever shown."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Make what is missing; the result is censored wherever it would be shown."""
        result = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(ARGUMENTS)
        wanted = {str(name): str(kind) for name, kind in given["secrets"].items()}
        try:
            file = SecretFile(Path(str(given["path"])), self._password(given))
            ensured = file.ensure(wanted, write=not self._task.check_mode)
        except ClusterError as error:
            raise AnsibleActionFail(str(error)) from error
        names = "".join(f"{name}: (made)\n" for name in ensured.made)
        return result | {
            "changed": bool(ensured.made),
            "made": ensured.made,
            "secrets": ensured.values,
            "diff": {"before": "", "after": names, "after_header": str(file.path)},
            "_ansible_no_log": True,
        }

    def _password(self, given: dict[str, Any]) -> str:
        if given["vault_password"]:
            return str(given["vault_password"])
        known = self._loader._vault.secrets or []
        if not known:
            raise AnsibleActionFail(
                "There is no vault password: set HEARTH_VAULT_PASSWORD_FILE to the file that "
                "holds it, or run Ansible with --ask-vault-pass."
            )
        return bytes(known[0][1].bytes).decode()
