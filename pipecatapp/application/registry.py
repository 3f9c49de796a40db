"""List workflows, tools and model names, with the JSON Schemas that forms are made of."""

import json
from typing import Any, Final, get_args

from pydantic import BaseModel

from pipecatapp.application.runs import RunService
from pipecatapp.workflow import Effect, Engine, Graph, Tool, Workflow

AGENT: Final = "agent"
AGENT_WORKFLOW: Final = "agent-turn"
AUTONOMY_WORKFLOW: Final = "autonomy"
PREFIX: Final = "workflow/"
EXPERT: Final = "expert/"
"""Prefix of the name of an expert that the agent should use."""


def asking(expert: str) -> str:
    """Return a layer with which the agent uses only this expert."""
    layer: dict[str, Any] = {
        "kind": "layer", "id": "chosen-model", "of": AGENT_WORKFLOW,
        "set": {"reply.model": expert, "history.model": expert},
    }  # fmt: skip
    return f"{json.dumps(layer)}\n"


def is_offered(workflow: Workflow) -> bool:
    """Return whether a workflow is a model: it has an input `messages` and an output `text`."""
    takes = workflow.input_schema().get("properties", {})
    gives = workflow.output_schema().get("properties", {})
    return "messages" in takes and "text" in gives


def model_of(workflow: Workflow) -> str | None:
    """The model name of a workflow: `agent`, `workflow/<id>`, or None."""
    if not is_offered(workflow):
        return None
    return AGENT if workflow.id == AGENT_WORKFLOW else f"{PREFIX}{workflow.id}"


class WorkflowSummary(BaseModel):
    """The interface of a workflow: `inputs` and `outputs` are JSON Schemas; `model` is its name for
    OpenAI clients, null if it supports no conversations.
    """

    id: str
    version: int
    about: str
    tags: list[str]
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    model: str | None


class WorkflowDetail(WorkflowSummary):
    graph: Graph


class ToolSummary(BaseModel):
    """A tool: `inputs` and `outputs` are JSON Schemas; `effect` is its side effect, for a workflow
    the strongest of its steps; `unavailable` says why this machine cannot run it, empty if it can.
    """

    name: str
    version: int
    about: str
    effect: Effect
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    unavailable: str = ""


def workflow_summaries(engine: Engine) -> list[WorkflowSummary]:
    """All that can be started by name."""
    return [summary_of(workflow) for workflow in engine.workflows.values()]


def workflow_detail(engine: Engine, workflow: Workflow) -> WorkflowDetail:
    """One, with its graph; raises `InvalidDocument`."""
    return WorkflowDetail(**summary_of(workflow).model_dump(), graph=engine.plan(workflow).graph())


def summary_of(workflow: Workflow) -> WorkflowSummary:
    """One line in the list of workflows."""
    return WorkflowSummary(
        id=workflow.id,
        version=workflow.version,
        about=workflow.about,
        tags=list(workflow.tags),
        inputs=workflow.input_schema(),
        outputs=workflow.output_schema(),
        model=model_of(workflow),
    )


def tool_summary(tool: Tool) -> ToolSummary:
    """One line in the list of tools."""
    return ToolSummary(
        name=tool.name,
        version=tool.version,
        about=tool.about,
        effect=tool.effect,
        inputs=tool.input_schema(),
        outputs=tool.output_schema(),
        unavailable=tool.unavailable(),
    )


def tool_summaries(runs: RunService) -> list[ToolSummary]:
    """Return the tools that a node can use, with runnable workflows as `workflow/<id>`."""
    return [tool_summary(tool) for _, tool in sorted(runs.engine.tools.items())] + [
        ToolSummary(
            name=f"{PREFIX}{name}",
            version=workflow.version,
            about=workflow.about,
            effect=max(effects, key=get_args(Effect).index, default="pure"),
            inputs=workflow.input_schema(),
            outputs=workflow.output_schema(),
        )
        for name, workflow in sorted(runs.engine.workflows.items())
        if (effects := runs.effects(name)) is not None
    ]
