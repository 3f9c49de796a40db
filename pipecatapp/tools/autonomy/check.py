"""The tool that checks a workflow that a model has written."""

import difflib
import re
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from pipecatapp.tools.autonomy.authoring import Author
from pipecatapp.workflow import BY_AUTHOR, Context, Effect, ToolFailed, tool

FENCE: Final = re.compile(r"```[a-z]*\s*\n(.*?)\n?\s*```", re.DOTALL)
FORBIDDEN: Final = ("workflow/autonomy", "run.start", "autonomy.start")
"""Tools that continue a chain: only the engine does that, after a question."""


class Checked(BaseModel):
    """A document that can run, or what is wrong with it."""

    ok: bool = Field(description="Whether it can run within its effects.")
    diagnostics: list[str] = Field(description="Errors of this document.")
    all: list[str] = Field(description="Errors of this document and of the previous ones.")
    document: str = Field(description="The document without a fence around it.")
    plan: str = Field(description="Graph, tools, effects, limits and worst case, for a person.")
    nodes: list[dict[str, Any]] = Field(description="The nodes of its graph.")
    tools: list[str] = Field(description="The tools that it uses.")
    effects: list[str] = Field(description="The effects that it has.")
    bound: str = Field(description="How many steps and model calls it has at most.")
    diff: str = Field(description="Difference to the previous document, as a unified diff.")


@tool("workflow.check", effect="read", version=1)
async def check(
    ctx: Context,
    document: Annotated[str, Field(description="The workflow, as YAML.")],
    allow: Annotated[list[Effect], BY_AUTHOR, Field(description="The effects that it may have.")],
    previous: Annotated[
        str, BY_AUTHOR, Field(description="The document to compare it with; empty for none.")
    ] = "",
    before: Annotated[
        list[str], BY_AUTHOR, Field(description="Errors of the previous documents.")
    ] = [],  # noqa: B006
    *,
    last: Annotated[
        bool, BY_AUTHOR, Field(description="Whether to fail if this one is wrong as well.")
    ] = False,
) -> Checked:
    """Check a workflow as `hearth validate` does, and that it has no other effects than allowed."""
    fenced = FENCE.search(document)
    text = (fenced[1] if fenced else document).strip() + "\n"
    found = await ctx.service(Author).authoring.examine(text, allow)
    wrong = [*found.diagnostics]
    wrong += [
        f"{name} cannot be used here: the next round is added by itself."
        for name in FORBIDDEN
        if name in found.tools or re.search(rf"\buse:\s*[\"']?{re.escape(name)}\b", text)
    ]
    every = [*before, *wrong]
    if wrong and last:
        raise ToolFailed(f"No document could be compiled: {'; '.join(every)}")
    changed = difflib.unified_diff(
        previous.splitlines(), text.splitlines(), "before", "now", lineterm="", n=3
    )
    return Checked(
        ok=not wrong,
        diagnostics=wrong,
        all=every,
        document=text,
        plan=found.plan,
        nodes=[dict(node) for node in found.nodes],
        tools=list(found.tools),
        effects=list(found.effects),
        bound=f"steps: {found.steps}; model calls: {found.models}",
        diff="\n".join(changed) if previous else "",
    )
