"""The tool that explains this instance's workflows to a model, from what is there now."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from pipecatapp.tools.memory.tokens import estimated
from pipecatapp.workflow import BY_AUTHOR, Context, Documents, Effect, Tool, tool
from pipecatapp.workflow.syntax import Node, WorkflowDocument, yaml_of

EXAMPLES: Final = ("summarize", "two-drafts")
"""Shipped workflows that are shown whole, if they fit."""
KEYS: Final[Mapping[str, type[BaseModel]]] = {"workflow": WorkflowDocument, "node": Node}
RULES: Final = (
    "A workflow is a YAML document. Its steps run one after another. `{{ … }}` is an expression"
    " that reads inputs as `inputs.name` and outputs of earlier nodes as `id.field`. A node whose"
    " `if` is false is skipped, and so is each node that reads it, unless it reads it with"
    " `| default(…)`. A loop needs `max`. Anchors and unknown keys are errors."
)


class Guide(BaseModel):
    """A text for a model that writes workflows."""

    text: str = Field(description="Rules, keys, tools and examples.")
    tools: list[str] = Field(description="The tools that it names.")
    tokens: int = Field(description="Estimate of its size.")


@tool("workflow.guide", effect="read", version=1)
async def guide(
    ctx: Context,
    allow: Annotated[
        list[Effect], BY_AUTHOR, Field(description="Only tools with these effects are named.")
    ],
    budget: Annotated[
        int, BY_AUTHOR, Field(description="Tokens; examples are left out first.", ge=200)
    ] = 5000,
) -> Guide:
    """Explain how workflows are written: the keys, the tools of this instance and examples.

    The text is made from the models of the documents and the tools that are there, whenever the
    tool is called.
    """
    tools = [one for name, one in sorted(ctx.tools.items()) if one.effect in allow]
    text = "\n\n".join([RULES, *_keys(), _tools(tools)])
    for name in EXAMPLES:
        example = _example(ctx, name)
        if example and estimated(f"{text}\n\n{example}") <= budget:
            text = f"{text}\n\n{example}"
    return Guide(text=text, tools=[one.name for one in tools], tokens=estimated(text))


def _keys() -> Iterator[str]:
    for name, model in KEYS.items():
        lines = [
            f"* {facts.alias or key}: {facts.description}"
            for key, facts in model.model_fields.items()
        ]
        yield "\n".join([f"Keys of a {name}:", *lines])


def _tools(tools: Iterable[Tool]) -> str:
    lines = [
        f"* {one.name} [{one.effect}]: {one.about.splitlines()[0]} "
        f"Takes {_fields(one.input_schema())}. Gives {_fields(one.output_schema())}."
        for one in tools
    ]
    return "\n".join(["Tools:", *lines])


def _fields(schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    names = [name if name in required else f"{name}?" for name in schema.get("properties", {})]
    return ", ".join(names) or "nothing"


def _example(ctx: Context, name: str) -> str:
    written = ctx.service(Documents).written.get(name)
    return f"Example:\n```yaml\n{yaml_of(written.value)}```" if written else ""
