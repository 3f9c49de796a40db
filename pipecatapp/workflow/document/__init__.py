"""Documents: YAML that people and models write."""

from pipecatapp.workflow.document.diagnostic import Diagnostic, InvalidDocument
from pipecatapp.workflow.document.loading import Prompt, Workflow

__all__ = ["Diagnostic", "InvalidDocument", "Prompt", "Workflow"]
