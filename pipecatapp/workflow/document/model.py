"""What may stand in a workflow document. These models are the reference of its keys."""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from pipecatapp.workflow.document.shapes import shape

LATER_IN_WORKFLOW = {
    "schedule",
    "extends",
    "select",
    "variants",
    "project",
    "workspace",
    "allow",
    "check",
}
LATER_IN_NODE = {
    *(
        "goto",
        "for",
        "while",
        "until",
        "max",
        "on_max",
        "stuck_on",
        "check",
        "retry",
        "on_error",
        "cache",
        "workspace",
    ),
    "where",
}
LATER_ELSEWHERE = {"depth", "cost", "retry", "cache"}
LATER = LATER_IN_WORKFLOW | LATER_IN_NODE | LATER_ELSEWHERE
"""Keys of the format that this version does not execute.

They are refused by name, never ignored.
"""

RESERVED = {
    "inputs",
    "run",
    "loop",
    "prev",
    "first",
    "true",
    "false",
    "none",
    "not",
    "and",
    "or",
    "in",
    "is",
    "if",
    "else",
}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")


def _seconds(value: Any) -> Any:
    if isinstance(value, str):
        found = _DURATION.fullmatch(value.replace(" ", ""))
        if not value.strip() or found is None:
            raise ValueError(f"{value!r} is not a duration such as 500ms, 30s, 5m or 1h30m")
        hours, minutes, seconds, milliseconds = (float(part or 0) for part in found.groups())
        return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    return value


def _known_shape(value: Any) -> Any:
    shape(value)
    return value


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _whole_expression(value: Any) -> Any:
    text = value.strip() if isinstance(value, str) else None
    if text is not None and not (text.startswith("{{") and text.endswith("}}")):
        raise ValueError(f'a condition is true, false or one expression: "{{{{ {text} }}}}"')
    return value


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
WorkflowName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]
ShapeText = Annotated[Any, BeforeValidator(_known_shape)]
Words = Annotated[list[str], BeforeValidator(_one_or_many)]
Condition = Annotated[bool | str, BeforeValidator(_whole_expression)]


class Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, validate_by_alias=True, validate_by_name=False
    )


class Input(Part):
    """One input of a workflow. `name: text` is short for `name: {type: text}`."""

    type: ShapeText = Field("text", description="Type in short-hand.")
    default: Any = Field(
        None, description="The value when none is given. Without it the input is required."
    )
    about: str = Field("", description="What it is, for people and models.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return (
            value
            if isinstance(value, dict) and ("type" in value or "default" in value)
            else {"type": value}
        )

    @property
    def required(self) -> bool:
        return "default" not in self.model_fields_set and not (
            isinstance(self.type, str) and self.type.endswith("?")
        )


class Output(Part):
    """One output of a workflow. `name: "{{ … }}"` is short for `name: {value: "{{ … }}"}`."""

    value: Any = Field(
        description="The value; expressions in it are evaluated when the nodes are done."
    )
    type: ShapeText = Field(
        "any", description="Type in short-hand; the value is checked against it."
    )
    about: str = Field("", description="What it is.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"value": value}


class Defaults(Part):
    """What holds for every node that does not say otherwise."""

    model: str | None = Field(None, description="Role or id of the model.")
    timeout: Seconds | None = Field(None, description="Time a tool call may take.")


class LimitsPart(Part):
    """Sums over the whole run, restarts included. A run that goes beyond one fails."""

    nodes: int = Field(1000, gt=0, description="Nodes that run, calls inside agents included.")
    wall: Seconds | None = Field(None, description="Time the run may execute.")
    tokens: int | None = Field(None, gt=0, description="Tokens that models read and write.")


class Node(Part):
    """One entry of a scope: a tool, another workflow, or a scope of its own."""

    id: Name = Field(description="Its name in its scope and in expressions.")
    use: str | None = Field(None, description="The tool, or `workflow/<id>`.")
    steps: list["Node"] | None = Field(None, description="Nodes that run one after another.")
    graph: list["Node"] | None = Field(
        None, description="Nodes that run as soon as what they read is there."
    )
    when: Condition | None = Field(
        None,
        alias="if",
        description="Whether it runs; else it is skipped, and so is what reads it.",
    )
    otherwise: list["Node"] = Field(
        [], alias="else", description="Nodes that run when `if` was false."
    )
    needs: Words = Field(
        [], description="Nodes that must be done before, though nothing of them is read."
    )
    given: dict[str, Any] = Field({}, alias="with", description="The input of the tool.")
    model: str | None = Field(None, description="Role or id of the model.")
    prompt: Words = Field(
        [], description="Tags; the prompts whose tags are all among them become the system text."
    )
    returns: ShapeText | None = Field(
        None,
        description="Type of the answer a model must give; the node's output is then that object.",
    )
    timeout: Seconds | None = Field(None, description="Time it may take.")
    stream: bool = Field(default=False, description="Whether its text streams to who listens.")
    tags: list[str] = Field([], description="For people and searches.")
    about: str = Field("", description="What it is for.")


class WorkflowDocument(Part):
    """A workflow."""

    kind: Literal["workflow"] = Field("workflow", description="What the document is.")
    id: WorkflowName = Field(description="Its name; other documents use it as `workflow/<id>`.")
    version: int = Field(1, gt=0, description="Grows when its inputs or outputs change.")
    tags: list[str] = Field([], description="For people and searches.")
    about: str = Field("", description="What it does.")
    inputs: dict[Name, Input] = Field({}, description="What it takes.")
    defaults: Defaults = Field(
        default_factory=lambda: Defaults.model_validate({}),
        description="What holds for every node.",
    )
    limits: LimitsPart = Field(
        default_factory=lambda: LimitsPart.model_validate({}), description="What a run may use."
    )
    steps: list[Node] | None = Field(None, description="Nodes that run one after another.")
    graph: list[Node] | None = Field(
        None, description="Nodes that run as soon as what they read is there."
    )
    outputs: dict[Name, Output] = Field({}, description="What it gives.")
