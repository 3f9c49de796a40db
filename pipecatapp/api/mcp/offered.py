"""The tools for MCP clients: the workflows, and some tools of this instance."""

from collections.abc import Mapping
from typing import Any, Final

from mcp.types import Tool, ToolAnnotations

from pipecatapp.api.mcp.callers import McpCaller
from pipecatapp.api.openai.offers import BEYOND_WORDS, scope_of
from pipecatapp.api.parts import Parts
from pipecatapp.application.engine import Effect, Workflow
from pipecatapp.application.registry import PREFIX

LOOKS: Final = frozenset[Effect](("pure", "llm", "read"))
OWN_TOOLS: Final[Mapping[str, str]] = {
    "note_save": "note.save",
    "note_find": "note.find",
    "prompt_find": "prompt.find",
    "cluster_status": "cluster.status",
}
"""Name for clients, which may not contain a `.`, -> tool. Clients show all of these to their model,
so they are few; every other tool can be a step of a workflow."""


def tools_for(parts: Parts, caller: McpCaller) -> list[Tool]:
    """Return the tools that the key of the caller permits, as clients see them."""
    workflows = parts.runs.engine.workflows
    found = [
        tool
        for one in workflows.values()
        if permits(parts, caller, one.id) and (tool := as_tool(parts, one))
    ]
    own = [name for name in OWN_TOOLS if name not in workflows and permits(parts, caller, name)]
    return [*found, *(_own_tool(parts, name) for name in own)]


def permits(parts: Parts, caller: McpCaller, name: str) -> bool:
    """Return whether the key of the caller permits this tool; True for an unknown name."""
    return not missing(parts, caller, name)


def missing(parts: Parts, caller: McpCaller, name: str) -> str:
    """Return what the key of the caller lacks for a tool, as a sentence; empty if nothing."""
    engine = parts.runs.engine
    if name in engine.workflows:
        if not caller.may_use(f"{PREFIX}{name}"):
            return f"The key may not use the model '{PREFIX}{name}'."
        scope = scope_of(engine, name)
    elif name in OWN_TOOLS:
        beyond = engine.tools[OWN_TOOLS[name]].effect in BEYOND_WORDS
        # A key that may not even see the notes of others must still not see the machines.
        scope = "workflows" if beyond or name == "cluster_status" else "chat"
    else:
        return ""
    return "" if caller.may_do(scope) else f"{name} needs a key with the scope '{scope}'."


def as_tool(parts: Parts, workflow: Workflow) -> Tool | None:
    """A workflow as clients see it; None for one that cannot run.

    What may ask a person promises no form of its answer: it may be the question.
    """
    effects = parts.runs.effects(workflow.id)
    if effects is None:
        return None
    return Tool(
        name=workflow.id,
        description=workflow.about or None,
        input_schema=workflow.input_schema(),
        output_schema=None if "human" in effects else workflow.output_schema(),
        annotations=_hints(effects),
    )


def unknown_inputs(parts: Parts, name: str, given: Mapping[str, Any]) -> str:
    """Return what is wrong with the names of a client's input, as a sentence; empty if nothing."""
    known = parts.runs.engine.tools[OWN_TOOLS[name]].schema_for_models().get("properties", {})
    unknown = ", ".join(sorted(given.keys() - known.keys()))
    return f"{name} has no input {unknown}: use {', '.join(known)}." if unknown else ""


def document_for(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workflow of one step that calls a tool of this instance with a client's input.

    Its names are those of the tool, and its values are inputs of the run, so that no text of a
    client is read as an expression.
    """
    inputs = {key: {"type": "any"} for key in given}
    values = {key: f"{{{{ inputs.{key} }}}}" for key in given}
    step = {"id": "result", "use": OWN_TOOLS[name], "with": values}
    return {
        "kind": "workflow",
        "id": name.replace("_", "-"),
        "inputs": inputs,
        "steps": [step],
        "outputs": {"result": "{{ result }}"},
    }


def _own_tool(parts: Parts, name: str) -> Tool:
    tool = parts.runs.engine.tools[OWN_TOOLS[name]]
    return Tool(
        name=name,
        description=tool.about,
        input_schema={"type": "object", **tool.schema_for_models()},
        output_schema=tool.output_schema(),
        annotations=_hints({tool.effect}),
    )


def _hints(effects: set[Effect] | frozenset[Effect]) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=effects <= LOOKS,
        destructive_hint=bool(effects & {"exec", "external"}),
        open_world_hint=bool(effects & {"net", "external"}),
    )
