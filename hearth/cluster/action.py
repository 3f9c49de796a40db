"""Tasks of ours that work on the controller, inside Ansible itself.

A module is a program of its own: for each task Ansible packs it, starts Python, and our clients are
imported anew, which takes longer than what it asks the agents. An action plugin is imported once.
"""

import json
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hearth.cluster.errors import ClusterError


@dataclass
class Asked:
    """What a task asks for: its arguments, and whether it only looks."""

    params: dict[str, Any]
    check_mode: bool
    warnings: list[str] = field(default_factory=list)

    def warn(self, sentence: str) -> None:
        """Shown beside the result."""
        self.warnings.append(sentence)


class ControllerAction:
    """Stands before Ansible's `ActionBase` among the bases of an action plugin. `spec` says which
    arguments there are, as `AnsibleModule` takes them; `work` does it.

    The module of the same name holds the documentation. Check mode is `work`'s to heed. Ansible is
    not imported here: that alone makes folders and starts programs.
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
