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
class TaskArgs:
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
        """Return the result of `work`; errors of agents and files fail the task."""
        result: dict[str, Any] = super().run(tmp, task_vars)  # type: ignore[misc]
        _, arguments = self.validate_argument_spec(**self.spec)  # type: ignore[attr-defined]
        # Converts the text and list types of Ansible to plain ones.
        task = TaskArgs(json.loads(json.dumps(arguments)), bool(self._task.check_mode))  # type: ignore[attr-defined]
        try:
            answer = self.work(task)
        except (ClusterError, OSError) as error:
            return result | {"failed": True, "msg": str(error)}
        return result | answer | ({"warnings": task.warnings} if task.warnings else {})

    @abstractmethod
    def work(self, task: TaskArgs) -> dict[str, Any]:
        """Run the task and return its result. Raises `ClusterError` or `OSError`."""
