"""Decide what to do about a failure: facts, then a typed action of a model or of rules."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from prompt_engineering.evaluation import AppClient, run_to_end
from prompt_engineering.failures import Failure

Action = Literal["restart", "more_memory", "adapt", "ask", "nothing"]
"""`adapt`: change the prompt. `ask`: a person has to look at it."""

_MEMORY: Final = ("out of memory", "oom", "cannot allocate")
_UNREACHABLE: Final = ("does not answer", "is it running", "connection")

REFLECT: Final = """kind: workflow
id: reflect
about: Decide what to do about a failure.
inputs:
  facts: text
  agent: text
  model: text
steps:
  - id: answer
    use: llm.json
    model: "{{ inputs.model }}"
    with:
      messages:
        - {role: system, content: "{{ inputs.agent }}"}
        - {role: user, content: "{{ inputs.facts }}"}
      returns: {action: "one of restart, more_memory, adapt, ask, nothing", reason: text}
outputs:
  action: {type: text, value: "{{ answer.value.action }}"}
  reason: {type: text, value: "{{ answer.value.reason }}"}
"""


class Facts(BaseModel):
    """What is known of one failure, without the opinion of a model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    failure: Failure
    unhealthy: tuple[str, ...] = ()
    """Services that are not healthy now."""

    @property
    def text(self) -> str:
        """The facts as a model reads them."""
        prompt = self.failure.prompt or "none"
        services = ", ".join(self.unhealthy) or "none"
        return (
            f"Workflow: {self.failure.workflow}\nError: {self.failure.error[:1000]}\n"
            f"Stored prompt of the failed step: {prompt}\nUnhealthy services: {services}"
        )

    @property
    def possible(self) -> frozenset[Action]:
        """Actions that the facts allow: a prompt cannot repair a service, nor the reverse."""
        allowed: set[Action] = {"ask", "nothing"}
        if self.unhealthy:
            allowed.add("restart")
        if _names(self.failure.error, _MEMORY):
            allowed.add("more_memory")
        if self.failure.prompt and not self.unhealthy:
            allowed.add("adapt")
        return frozenset(allowed)


class Reflection(BaseModel):
    """The action that was chosen, and why. `by` is `model` or `rules`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    action: Action
    reason: str
    by: Literal["model", "rules"]


async def gather(client: AppClient, failure: Failure) -> Facts:
    """Collect the facts about a failure. Raises `RequestFailed`."""
    status = await client.request("GET", "/api/status")
    unhealthy = [one["name"] for one in status["services"] if not one["healthy"]]
    return Facts(failure=failure, unhealthy=tuple(unhealthy))


def by_rules(facts: Facts) -> Reflection:
    """Choose without a model: the first rule that fits the facts."""
    if "more_memory" in facts.possible:
        return Reflection(action="more_memory", reason="The memory was used up.", by="rules")
    if facts.unhealthy:
        reason = f"Not healthy: {', '.join(facts.unhealthy)}."
        return Reflection(action="restart", reason=reason, by="rules")
    if _names(facts.failure.error, _UNREACHABLE) or facts.failure.prompt is None:
        return Reflection(action="ask", reason="The prompt is not the cause.", by="rules")
    return Reflection(action="adapt", reason="A model call failed with this prompt.", by="rules")


async def reflect(client: AppClient, facts: Facts, model: str) -> Reflection:
    """Let a model choose one of the possible actions; by rules where it chooses none of them.

    Raises `RequestFailed` when the application refuses the run.
    """
    inputs = {"facts": facts.text, "agent": agent_text(), "model": model}
    body = {"document": REFLECT, "inputs": inputs, "interactive": False}
    run = await run_to_end(client, body)
    chosen = _parsed(run["outputs"] or {})
    if chosen is None or chosen.action not in facts.possible:
        return by_rules(facts)
    return chosen


def agent_text() -> str:
    """The definition of the adaptation agent, without its front matter."""
    text = files("prompt_engineering").joinpath("agents", "ADAPTATION_AGENT.md").read_text("utf-8")
    return text.split("\n---\n", 1)[1].strip()


def _parsed(outputs: Mapping[str, Any]) -> Reflection | None:
    if outputs.get("action") not in get_args(Action):
        return None
    try:
        return Reflection.model_validate({**outputs, "by": "model"})
    except ValidationError:
        return None


def _names(error: str, words: Sequence[str]) -> bool:
    return any(word in error.lower() for word in words)
