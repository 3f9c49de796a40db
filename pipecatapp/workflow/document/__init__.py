"""Documents: YAML that people and models write."""

from pipecatapp.workflow.document.diagnostic import Diagnostic, InvalidDocument
from pipecatapp.workflow.document.loading import Project, Prompt, Workflow

__all__ = ["Diagnostic", "InvalidDocument", "Project", "Prompt", "Workflow"]
