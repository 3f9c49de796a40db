"""Models of a workflow document. They are the reference of its keys."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from pipecatapp.workflow.document.shapes import shape
from pipecatapp.workflow.tool import Effect, Where
from pipecatapp.workflow.tool_names import current_name

RESERVED = {
    "inputs",
    "run",
    "project",
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


def seconds_of(value: Any) -> Any:
    """Convert `1h30m` to seconds; a value that is not a text is unchanged. Raises `ValueError`."""
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


def _one_or_more(value: Any) -> Any:
    return value if isinstance(value, list | dict) else [value]


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _whole_expression(value: Any) -> Any:
    text = value.strip() if isinstance(value, str) else None
    if text is not None and not (text.startswith("{{") and text.endswith("}}")):
        raise ValueError(f'a condition is true, false or one expression: "{{{{ {text} }}}}"')
    return value


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
WorkflowName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
Seconds = Annotated[float, BeforeValidator(seconds_of), Field(gt=0)]
ShapeText = Annotated[Any, BeforeValidator(_known_shape)]
Words = Annotated[list[str], BeforeValidator(_one_or_many)]
Condition = Annotated[bool | str, BeforeValidator(_whole_expression)]
Conditions = Annotated[list[Condition] | dict[str, Condition], BeforeValidator(_one_or_more)]


class Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, validate_by_alias=True, validate_by_name=False
    )


class Input(Part):
    """One input of a workflow. `name: text` is short for `name: {type: text}`."""

    type: ShapeText = Field("text", description="Type in short-hand.")
    default: Any = Field(None, description="Default value. Without it the input is required.")
    about: str = Field("", description="Description of the input, for people and models.")

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
    about: str = Field("", description="Description of the output.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"value": value}


class Retry(Part):
    """`retry`: how a failed node is tried again. A number is short for `times`."""

    times: int = Field(gt=0, le=100, description="Maximum number of retries.")
    wait: Seconds | None = Field(None, description="Time before each retry.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"times": value}


class ModelPart(Part):
    """`model`: the model that answers. A text or a list is short for `use`."""

    use: Words = Field(
        ["default"],
        description="Roles or ids. The first available one is used; the others are fallbacks.",
    )
    escalate: Words = Field(
        [],
        description="In a loop, instead of `use`: one for each visit, the last for all later ones.",
    )
    needs: list[Literal["tools", "vision", "embeddings"]] = Field(
        [], description="Required capabilities."
    )
    context: int | None = Field(None, gt=0, description="Required context size, in tokens.")
    privacy: Literal["any", "local"] = Field(
        "any", description="`local`: only models on machines of this home."
    )
    max_cost: float | None = Field(
        None, ge=0, description="Maximum cost of a token, relative to the tokens of other models."
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"use": value}


class Defaults(Part):
    """Default values of all nodes."""

    model: ModelPart | None = Field(None, description="The model that answers.")
    timeout: Seconds | None = Field(None, description="Time a tool call may take.")
    retry: Retry | None = Field(None, description="Retries of tools that may be called again.")
    cache: Literal["auto", "never"] = Field("auto", description="As for a node.")


class LimitsPart(Part):
    """Limits of the whole run, including restarts. A run that exceeds a limit fails."""

    nodes: int = Field(
        1000,
        gt=0,
        description="Number of executed nodes, including every visit and the calls inside agents.",
    )
    depth: int = Field(8, gt=0, le=50, description="Maximum nesting depth of workflows.")
    wall: Seconds | None = Field(None, description="Time the run may execute.")
    tokens: int | None = Field(None, gt=0, description="Tokens that models read and write.")
    cost: float | None = Field(
        None, gt=0, description="Tokens multiplied by the cost of a token of their model."
    )


class Schedule(Part):
    """`schedule`: when the workflow starts automatically. A text is short for `cron`."""

    cron: str | None = Field(
        None, description="Minute, hour, day, month and weekday, as in a crontab."
    )
    every: Seconds | None = Field(None, description="The time between two starts, instead.")
    zone: str | None = Field(
        None, description="Time zone of `cron`, such as Europe/Berlin; else the machine's."
    )
    inputs: dict[str, Any] = Field({}, description="Inputs of the scheduled run.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"cron": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.cron is None) == (self.every is None):
            raise ValueError("use either `cron` or `every`")
        return self

    @field_validator("cron")
    @classmethod
    def _a_cron_line(cls, value: str | None) -> str | None:
        try:
            if value is not None and (len(value.split()) != 5 or not CronSim(value, _A_DAY)):
                raise ValueError("a cron line has five fields: minute, hour, day, month, weekday")
        except CronSimError as error:
            raise ValueError(f"not a cron line: {error}") from error
        return value

    @field_validator("zone")
    @classmethod
    def _a_zone(cls, value: str | None) -> str | None:
        try:
            return value and ZoneInfo(value).key
        except (LookupError, ValueError, OSError) as error:
            raise ValueError(f"there is no time zone {value!r}") from error


_A_DAY = datetime(2000, 1, 1, tzinfo=UTC)


class WorkspacePart(Part):
    """`workspace`: the initial content of the run's folder. A text is short for `repo`."""

    repo: str = Field(description="Path of a git repository on the machine of the service.")
    commit: str | None = Field(None, description="Commit, tag or branch; HEAD without it.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"repo": value}


class ForEach(Part):
    """`for`: run once for each item. One `{{ … }}`, or a list, is short for `each`."""

    each: str | list[Any] = Field(description="The list, usually as an expression.")
    name: Name = Field("item", alias="as", description="Name of the item in expressions.")
    parallel: int = Field(
        1, gt=0, le=1000, description="Items at the same time; results keep the order of the items."
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"each": value}


class OnError(Part):
    """`on_error`: reaction to a failure. `stop` and `continue` are written as one word."""

    then: Literal["stop", "continue", "goto"] = Field(
        "stop",
        description="`stop` fails the enclosing scope; `continue` continues without its output.",
    )
    goto: Name | None = Field(None, description="The sibling to continue with instead.")
    max: int | None = Field(None, gt=0, le=1000, description="Maximum number of backward jumps.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"then": "goto", **value} if isinstance(value, dict) else {"then": value}


class Node(Part):
    """One entry of a scope: a tool, another workflow, an inner scope, or a jump."""

    id: Name = Field(description="Its name in its scope and in expressions.")
    use: Annotated[str, AfterValidator(current_name)] | None = Field(
        None, description="The tool, or `workflow/<id>`."
    )
    goto: Name | None = Field(
        None, description="The sibling of these `steps` to continue with, later or earlier."
    )
    steps: list["Node"] | None = Field(None, description="Nodes that run in sequence.")
    graph: list["Node"] | None = Field(
        None, description="Nodes that run as soon as their inputs are available."
    )
    when: Condition | None = Field(
        None,
        alias="if",
        description="Condition; if it is false, the node and the nodes that read it are skipped.",
    )
    otherwise: list["Node"] = Field(
        [], alias="else", description="Nodes that run when `if` was false."
    )
    each: ForEach | None = Field(None, alias="for", description="Run once for each item of a list.")
    during: Condition | None = Field(
        None, alias="while", description="Run as long as this is true; evaluated before each visit."
    )
    until: Condition | None = Field(
        None, description="Run until this is true; evaluated after each visit."
    )
    max: int | None = Field(
        None,
        gt=0,
        le=1000,
        description="Maximum number of visits of a `while` or `until`, or "
        "of backward jumps of a `goto`.",
    )
    on_max: Literal["fail", "continue", "ask"] = Field(
        "fail", description="Reaction when `max` is reached."
    )
    stuck_on: str | None = Field(
        None,
        description="If it has the same value as in an earlier visit, the "
        "loop ends as if `max` was reached.",
    )
    retry: Retry | None = Field(
        None,
        description="Retries of the node, or of the visit, after a failure. "
        "An agent, a scope or a workflow "
        "starts again from its beginning, with the files as they are, or as before with "
        "`workspace: fork`.",
    )
    on_error: OnError = Field(
        default_factory=lambda: OnError.model_validate("stop"),
        description="`stop`, `continue`, or `{goto: id}`.",
    )
    needs: Words = Field(
        [], description="Nodes that must end before this one, in addition to those that it reads."
    )
    given: dict[str, Any] = Field({}, alias="with", description="The input of the tool.")
    model: ModelPart | None = Field(None, description="The model that answers.")
    prompt: Words = Field(
        [], description="Tags; the prompts whose tags are all among them become the system text."
    )
    returns: ShapeText | None = Field(
        None,
        description="Type of the model's answer; the node's output is that object.",
    )
    check: Conditions = Field(
        [],
        description="Conditions on its output, which is read by the "
        "node's id; the node fails if one is "
        "false. One condition, a list, or the reason for the failure and its condition.",
    )
    timeout: Seconds | None = Field(
        None, description="Maximum duration of the node, or of each visit."
    )
    cache: Literal["auto", "never", "pin"] | None = Field(
        None,
        description="`auto`: use a cached output; `never`: call; `pin`: use `pinned`.",
    )
    pinned: Any = Field(None, description="Recorded output that replaces the call.")
    workspace: Literal["same", "fork"] = Field(
        "same",
        description="`fork`: the node, or each visit, works on its own "
        "copy, which is merged when it ends.",
    )
    where: Where = Field(
        "local",
        description="Where its programs run: `local`, in a job of `nomad`, or in a container of "
        "`docker`.",
    )
    stream: bool = Field(default=False, description="Whether its text is streamed to clients.")
    tags: list[str] = Field([], description="For people and searches.")
    about: str = Field("", description="Description.")


class WorkflowDocument(Part):
    """A workflow."""

    kind: Literal["workflow"] = Field("workflow", description="Kind of the document.")
    id: WorkflowName = Field(description="Its name; other documents use it as `workflow/<id>`.")
    version: int = Field(1, gt=0, description="Grows when its inputs or outputs change.")
    tags: list[str] = Field([], description="For people and searches.")
    about: str = Field("", description="Description.")
    inputs: dict[Name, Input] = Field({}, description="Inputs.")
    defaults: Defaults = Field(
        default_factory=lambda: Defaults.model_validate({}),
        description="Default values of all nodes.",
    )
    limits: LimitsPart = Field(
        default_factory=lambda: LimitsPart.model_validate({}), description="Limits of a run."
    )
    allow: list[Effect] | None = Field(
        None,
        description="Permitted effects of the workflow and everything that it "
        "uses; default: all effects of the run.",
    )
    project: str | None = Field(
        None, description="The project it belongs to; its fields are read as `project.…`."
    )
    schedule: Schedule | None = Field(None, description="Automatic starts.")
    workspace: WorkspacePart | None = Field(
        None, description="Initial content of the run's folder; default: empty."
    )
    steps: list[Node] | None = Field(None, description="Nodes that run in sequence.")
    graph: list[Node] | None = Field(
        None, description="Nodes that run as soon as their inputs are available."
    )
    outputs: dict[Name, Output] = Field({}, description="Outputs.")
