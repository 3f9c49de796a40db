"""Action plugins: tasks that run on the controller, within the process of Ansible.

For each task with a module, Ansible packs the module, starts Python and imports the clients again,
which takes longer than the requests to the agents. An action plugin is imported once.
"""

import json
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hearth.cluster.errors import ClusterError


@dataclass
class Asked:
    """The arguments of a task, and whether it runs in check mode."""

    params: dict[str, Any]
    check_mode: bool
    warnings: list[str] = field(default_factory=list)

    def warn(self, sentence: str) -> None:
        """Add a warning that is shown with the result."""
        self.warnings.append(sentence)


class ControllerAction:
    """The base class of action plugins, listed before Ansible's `ActionBase`. `spec` declares the
    arguments like `AnsibleModule`; `work` runs the task.

    The module of the same name has the documentation. `work` must respect check mode. Ansible is
    not imported here, because the import creates folders and starts programs.
    """

    spec: ClassVar[dict[str, Any]]
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """The answer of `work`; what is wrong with agents or files fails the task."""
        result: dict[str, Any] = super().run(tmp, task_vars)  # type: ignore[misc]
        _, given = self.validate_argument_spec(**self.spec)  # type: ignore[attr-defined]
        # Ansible's own kinds of text and of lists end here.
        asked = Asked(json.loads(json.dumps(given)), bool(self._task.check_mode))  # type: ignore[attr-defined]
        try:
            answer = self.work(asked)
        except (ClusterError, OSError) as error:
            return result | {"failed": True, "msg": str(error)}
        return result | answer | ({"warnings": asked.warnings} if asked.warnings else {})

    @abstractmethod
    def work(self, asked: Asked) -> dict[str, Any]:
        """Do it; what the task answers. Raises `ClusterError` or `OSError`."""
