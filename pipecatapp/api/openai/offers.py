"""Which workflows are models for OpenAI clients, and under which names."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from hearth.service.http_errors import Refused
from pipecatapp.application.engine import Engine, InvalidDocument, Workflow
from pipecatapp.application.registry import AGENT, AGENT_WORKFLOW, PREFIX, is_offered

BEYOND_WORDS: Final = frozenset(("workspace", "net", "external", "human"))
"""Effects on files, the world or people: a key for talking must not have them."""


def offered(workflows: Mapping[str, Workflow]) -> dict[str, Workflow]:
    """Return model name -> workflow; the agent is first and also has its `workflow/…` name."""
    found = {f"{PREFIX}{w.id}": w for w in workflows.values() if is_offered(w)}
    agent = found.get(f"{PREFIX}{AGENT_WORKFLOW}")
    return {AGENT: agent, **found} if agent is not None else found


def scope_of(engine: Engine, workflow: str) -> str:
    """The scope that a caller's key needs for a workflow, in the gateway's words.

    `chat` is for workflows that neither touch files nor have another effect than words; a workflow
    that cannot run has the scope `workflows`.
    """
    try:
        plan = engine.plan(workflow)
    except InvalidDocument:
        return "workflows"
    tools = plan.tools_within_reach(engine.tools)
    effects = {*plan.effects(), *(tool.effect for tool in tools)}
    if "exec" in effects:
        return "exec"
    files = plan.workspace is not None or any(tool.workspace for tool in tools)
    beyond = files or plan.offers_by_pattern() or BEYOND_WORDS.intersection(effects)
    return "workflows" if beyond else "chat"


def workflow_for(workflows: Mapping[str, Workflow], model: str) -> Workflow:
    """Return the workflow of a model name, or raise the 404 that OpenAI clients expect."""
    known = offered(workflows)
    if model in known:
        return known[model]
    near = get_close_matches(model, known, n=1)
    question = f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(known)}."
    raise Refused(404, "model_not_found", f"There is no model {model!r}.{question}", param="model")
