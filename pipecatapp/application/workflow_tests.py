"""Documents with tests of workflows: the answers of a scripted model and the expected results."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from hearth.openai_api.chat import ChatRequest
from hearth.openai_api.scripts import Rule
from pipecatapp.workflow.expressions import ExpressionError, render

Json = dict[str, Any]
MODEL: Final = "scripted"
SHOWN: Final = 300
"""Characters of a value in a message."""


class InvalidTests(ValueError):
    """A file with tests is not valid; the message states the file and the reason."""


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Answer(Part):
    """One answer of the scripted model, and the requests that get it. The first one that fits is
    used. Answers with the same `when` and `model` are used in order, then the last one is repeated.
    """

    when: str = Field("", description="Words of the last message; empty fits every request.")
    model: str = Field("", description="The model that is asked; empty fits every model.")
    say: str | None = Field(None, description="The text of the answer.")
    call: str | None = Field(None, description="The tool that the answer calls.")
    arguments: Json = Field(default_factory=dict, description="The arguments of the call.")
    fail: int | None = Field(None, description="The HTTP status of an error.", ge=400, le=599)

    @model_validator(mode="after")
    def _has_one(self) -> "Answer":
        if sum(one is not None for one in (self.say, self.call, self.fail)) != 1:
            raise ValueError("an answer has one of `say`, `call` and `fail`")
        return self

    def fits(self, request: ChatRequest) -> bool:
        """Tell whether a request gets this answer."""
        return self.when in request.last_text and self.model in ("", request.model)

    def add_to(self, rule: Rule) -> None:
        """Add the answer to those of its rule."""
        if self.fail is not None:
            rule.refuse(self.fail, "The scripted model fails.")
        elif self.call is not None:
            rule.call_tool(self.call, self.arguments)
        else:
            rule.say(self.say or "")


class Expected(Part):
    """The expected result of a run. Only the parts that are named are compared."""

    status: Literal["done", "failed"] = Field("done", description="How the run ends.")
    outputs: Json = Field(default_factory=dict, description="Values of outputs of the workflow.")
    check: dict[str, str] = Field(
        default_factory=dict,
        description="Conditions on `outputs`, `steps` and `error`, each with its message.",
    )
    error: str = Field("", description="Words of the error of the run.")
    steps: dict[str, Literal["done", "failed", "skipped"]] = Field(
        default_factory=dict, description="How steps end; `skipped` also for one that never began."
    )
    models: list[str] | None = Field(
        None, description="The models that are asked, in this order, also those that fail."
    )


class WorkflowTest(Part):
    """A run of the workflow and its expected result."""

    name: str
    inputs: Json = Field(default_factory=dict)
    answers: Json = Field(default_factory=dict, description="Node -> answer of a person.")
    model: list[Answer] = Field(default=[], description="The answers of the scripted model.")
    expect: Expected = Field(default_factory=lambda: Expected.model_validate({}))


class WorkflowTests(Part):
    """A document with the tests of one workflow."""

    kind: Literal["tests"]
    workflow: str = Field(
        description="A workflow's id, or a file that ends in .yaml, relative to this one."
    )
    models: list[str] = Field(default=[MODEL], description="Models that are there.", min_length=1)
    roles: dict[str, str | list[str]] = Field(
        default_factory=dict, description="Role -> model; without `default` it is the first model."
    )
    tests: list[WorkflowTest] = Field(min_length=1)


def read_tests(path: Path) -> WorkflowTests:
    """Read a file with tests; raises `InvalidTests`."""
    try:
        found = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
        return WorkflowTests.model_validate(found)
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise InvalidTests(f"{path} cannot be read: {' '.join(str(error).split())}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise InvalidTests(f"{path}: {place}: {first['msg']}.") from error


def failures(expected: Expected, run: Json, asked: list[str]) -> list[str]:
    """Return a sentence for everything that a run did not give; empty if the test passes.

    `run` is the run as the API returns it, and `asked` the models that it asked.
    """
    return [
        *_status(expected, run),
        *_outputs(expected, run["outputs"] or {}),
        *_conditions(expected.check, run),
        *_steps(expected, run),
        *_models(expected, asked),
    ]


def _status(expected: Expected, run: Json) -> Iterator[str]:
    error = run["error"] or ""
    if run["status"] != expected.status:
        reason = f": {error}" if error else ""
        yield f"The run is {run['status']} instead of {expected.status}{reason}"
    if expected.error and expected.error not in error:
        yield f"The error is {_shown(error)} and does not have {_shown(expected.error)}."


def _outputs(expected: Expected, outputs: Json) -> Iterator[str]:
    for name, value in expected.outputs.items():
        if name not in outputs:
            yield f"Output {name!r} is missing."
        elif outputs[name] != value:
            yield f"Output {name!r} is {_shown(outputs[name])} instead of {_shown(value)}."


def _conditions(check: Mapping[str, str], run: Json) -> Iterator[str]:
    steps = {step["node"]: step["output"] for step in run["steps"] if step["output"] is not None}
    names = {"outputs": run["outputs"] or {}, "steps": steps, "error": run["error"] or ""}
    for message, condition in check.items():
        try:
            met = render(condition, names)
        except ExpressionError as error:
            yield f"{message}: {error}."
        else:
            if met is not True:
                yield f"{message}: {condition} is {_shown(met)}."


def _steps(expected: Expected, run: Json) -> Iterator[str]:
    ended = {step["path"]: step["status"] for step in run["steps"]}
    for path, status in expected.steps.items():
        found = ended.get(path, "skipped")
        if found != status:
            yield f"Step {path!r} is {found} instead of {status}."


def _models(expected: Expected, asked: list[str]) -> Iterator[str]:
    if expected.models is not None and asked != expected.models:
        found = ", ".join(asked) or "none"
        yield f"The models that are asked: {found} instead of {', '.join(expected.models)}."


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
