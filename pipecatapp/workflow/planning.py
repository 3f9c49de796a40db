"""Public: the nodes of a plan, and what a dry run and a real run compute alike."""

from pipecatapp.workflow.models import input_of, models_of
from pipecatapp.workflow.plan import (
    WIDEST,
    Body,
    Jump,
    ModelChoice,
    PlanInput,
    PlanLoop,
    PlanNode,
    loop_text,
)
from pipecatapp.workflow.running.agent import agent
from pipecatapp.workflow.running.known import CACHED, Known
from pipecatapp.workflow.running.prompting import LONGEST_REQUEST, request_of, told, with_messages
from pipecatapp.workflow.running.scope import checked_inputs, loop_names, outputs_of, unmet
from pipecatapp.workflow.tool import EFFECTS, Json

__all__ = [
    "CACHED",
    "EFFECTS",
    "LONGEST_REQUEST",
    "WIDEST",
    "Body",
    "Json",
    "Jump",
    "Known",
    "ModelChoice",
    "PlanInput",
    "PlanLoop",
    "PlanNode",
    "agent",
    "checked_inputs",
    "input_of",
    "loop_names",
    "loop_text",
    "models_of",
    "outputs_of",
    "request_of",
    "told",
    "unmet",
    "with_messages",
]
