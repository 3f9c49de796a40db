"""Which workflows are models for OpenAI clients, and under which names."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Final

from pipecatapp.api.errors import Refused
from pipecatapp.catalogue import AGENT, AGENT_WORKFLOW, PREFIX, is_offered
from pipecatapp.workflow import Workflow

BEYOND_WORDS: Final = frozenset(("net", "external", "human"))
"""Effects on the world or on people: a key for talking must not have them."""


def offered(workflows: Mapping[str, Workflow]) -> dict[str, Workflow]:
    """Model name -> workflow; the agent comes first and has its `workflow/…` name as well."""
    found = {f"{PREFIX}{w.id}": w for w in workflows.values() if is_offered(w)}
    agent = found.get(f"{PREFIX}{AGENT_WORKFLOW}")
    return {AGENT: agent, **found} if agent is not None else found


def scope_of(effects: Collection[str] | None) -> str:
    """What a caller's key must open for a workflow with these effects, by the gateway's words.
    None: nobody knows, because it cannot run."""
    if effects is None:
        return "workflows"
    if "exec" in effects:
        return "exec"
    return "workflows" if BEYOND_WORDS.intersection(effects) else "chat"


def workflow_for(workflows: Mapping[str, Workflow], model: str) -> Workflow:
    """The workflow behind a model name, or the 404 that OpenAI clients expect."""
    known = offered(workflows)
    if model in known:
        return known[model]
    near = get_close_matches(model, known, n=1)
    question = f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(known)}."
    raise Refused(404, "model_not_found", f"There is no model {model!r}.{question}", param="model")
