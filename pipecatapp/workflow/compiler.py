"""Compile a workflow."""

from collections.abc import Iterable, Mapping
from pipecatapp.workflow.document import Prompt, Workflow
from pipecatapp.workflow.plan import Plan
from pipecatapp.workflow.tool import Tool


def compile_workflow(
    document: Workflow,
    tools: Mapping[str, Tool],
    prompts: Iterable[Prompt] = (),
    *,
    workflows: Mapping[str, Workflow] | None = None,
    roles: Mapping[str, str] | None = None,
) -> Plan: ...


def plan_text(plan: Plan) -> str: ...
