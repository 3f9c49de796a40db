"""What an instance offers: workflows and tools, with the JSON Schemas that forms are made of."""

from typing import Any, Final, get_args

from pydantic import BaseModel

from pipecatapp.runs import Runs
from pipecatapp.workflow import Effect, Engine, Graph, Workflow

AGENT: Final = "agent"
AGENT_WORKFLOW: Final = "agent-turn"
PREFIX: Final = "workflow/"


def is_offered(workflow: Workflow) -> bool:
    """A workflow that takes `messages` and gives `text` is a conversation."""
    takes = workflow.input_schema().get("properties", {})
    gives = workflow.output_schema().get("properties", {})
    return "messages" in takes and "text" in gives


def model_of(workflow: Workflow) -> str | None:
    """The model name of a workflow: `agent`, `workflow/<id>`, or None."""
    if not is_offered(workflow):
        return None
    return AGENT if workflow.id == AGENT_WORKFLOW else f"{PREFIX}{workflow.id}"


class WorkflowCard(BaseModel):
    """What one needs to start it: `inputs` and `outputs` are JSON Schemas; `model` is the name
    under which OpenAI clients reach it, null when it is no conversation.
    """

    id: str
    version: int
    about: str
    tags: list[str]
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    model: str | None


class WorkflowPage(WorkflowCard):
    graph: Graph


class ToolCard(BaseModel):
    """`inputs` and `outputs` are JSON Schemas; `effect` says what a call does to the world, of a
    workflow the furthest that one of its steps may do.
    """

    name: str
    version: int
    about: str
    effect: Effect
    inputs: dict[str, Any]
    outputs: dict[str, Any]


def catalogue(engine: Engine) -> list[WorkflowCard]:
    """All that can be started by name."""
    return [card(workflow) for workflow in engine.workflows.values()]


def page(engine: Engine, workflow: Workflow) -> WorkflowPage:
    """One, with its graph; raises `InvalidDocument`."""
    return WorkflowPage(**card(workflow).model_dump(), graph=engine.plan(workflow).graph())


def card(workflow: Workflow) -> WorkflowCard:
    """One line in the list of workflows."""
    return WorkflowCard(
        id=workflow.id,
        version=workflow.version,
        about=workflow.about,
        tags=list(workflow.tags),
        inputs=workflow.input_schema(),
        outputs=workflow.output_schema(),
        model=model_of(workflow),
    )


def tool_cards(runs: Runs) -> list[ToolCard]:
    """What a node can use, by name: tools, and as `workflow/<id>` the workflows that can run."""
    return [
        ToolCard(
            name=name,
            version=tool.version,
            about=tool.about,
            effect=tool.effect,
            inputs=tool.input_schema(),
            outputs=tool.output_schema(),
        )
        for name, tool in sorted(runs.engine.tools.items())
    ] + [
        ToolCard(
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
