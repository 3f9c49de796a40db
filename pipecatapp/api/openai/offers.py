"""Which workflows are models for OpenAI clients, and under which names."""

from collections.abc import Mapping
from difflib import get_close_matches

from pipecatapp.api.errors import Refused
from pipecatapp.catalogue import AGENT, AGENT_WORKFLOW, PREFIX, is_offered
from pipecatapp.workflow import Workflow


def offered(workflows: Mapping[str, Workflow]) -> dict[str, Workflow]:
    """Model name -> workflow; the agent comes first and has its `workflow/…` name as well."""
    found = {f"{PREFIX}{w.id}": w for w in workflows.values() if is_offered(w)}
    agent = found.get(f"{PREFIX}{AGENT_WORKFLOW}")
    return {AGENT: agent, **found} if agent is not None else found


def workflow_for(workflows: Mapping[str, Workflow], model: str) -> Workflow:
    """The workflow behind a model name, or the 404 that OpenAI clients expect."""
    known = offered(workflows)
    if model in known:
        return known[model]
    near = get_close_matches(model, known, n=1)
    question = f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(known)}."
    raise Refused(404, "model_not_found", f"There is no model {model!r}.{question}", param="model")
