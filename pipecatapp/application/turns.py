"""Check a message with attachments against the model that is to read it."""

from collections.abc import Sequence

from pipecatapp.application.engine import Engine
from pipecatapp.records.attachments import (
    MOST,
    Attachment,
    AttachmentContent,
    block,
    parts_of,
)
from pipecatapp.tools.memory.conversation import IMAGE
from pipecatapp.tools.memory.tokens import estimated
from pipecatapp.workflow import ModelFacts, ModelNeeds
from pipecatapp.workflow.planning import models_of
from pipecatapp.workflow.syntax import ShapeError

__all__ = [
    "MOST",
    "Attachment",
    "AttachmentContent",
    "TooLong",
    "asked_models",
    "block",
    "check_room",
    "parts_of",
    "sees_images",
]


class TooLong(ValueError):
    """A message has more tokens than the context of the selected model."""


def asked_models(engine: Engine, workflow: str) -> list[str]:
    """The ids of the models that the last model call of a workflow may ask; empty if none fits."""
    plan = engine.plan(workflow)
    for node in reversed(plan.body.nodes):
        if node.model is not None and node.effect == "llm":
            try:
                return models_of(node.model, node.model.use, plan.roles, engine.facts)
            except ShapeError:
                return []
    return []


def sees_images(facts: ModelFacts, models: Sequence[str]) -> bool:
    """Whether the first of these models reads images, as far as that is known."""
    needs = ModelNeeds(able=frozenset({"vision"}))
    return bool(models) and bool(facts.fitting(models[0], needs)[0])


def check_room(facts: ModelFacts, models: Sequence[str], texts: Sequence[str], images: int) -> None:
    """Raise `TooLong` if a message does not fit the context of the first of these models."""
    size = facts.context(models[0]) if models else None
    tokens = sum(map(estimated, texts)) + images * IMAGE
    if size is not None and len(texts) + images > 1 and tokens > size:
        reason = (
            f"The message has about {tokens:,} tokens with its files; {models[0]} reads {size:,}."
        )
        raise TooLong(f"{reason} Attach less, or choose a model with a larger context.")
