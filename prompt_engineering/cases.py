"""Test cases: a workflow, its inputs, and checks of its outputs. Written as YAML."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from prompt_engineering.genome import Id

MOST_SHOWN: Final = 300
"""Characters of an output that the message of a failed check contains."""


class InvalidCases(ValueError):
    """A file of cases cannot be read, or two cases contradict each other."""


class Check(BaseModel):
    """One condition on one output of a run. Exactly one of the conditions is set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    output: str = "text"
    """The output of the workflow that is checked; other values are compared as JSON."""
    equals: str | None = None
    one_of: tuple[str, ...] | None = None
    contains: str | None = None
    lacks: str | None = None
    matches: str | None = None
    """A regular expression (Python `re`) that is found somewhere in the output."""
    max_words: Annotated[int, Field(ge=0)] | None = None
    ends: Literal["done"] | None = None
    """The run has to end as done; nothing is asked of its outputs."""

    @field_validator("matches")
    @classmethod
    def _is_pattern(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return pattern

    @model_validator(mode="after")
    def _has_one_condition(self) -> Self:
        if len(self.conditions) != 1:
            names = ", ".join(name for name in type(self).model_fields if name != "output")
            raise ValueError(f"a check needs exactly one of {names}")
        return self

    @property
    def conditions(self) -> dict[str, Any]:
        """The condition that is set, by its name."""
        return self.model_dump(exclude={"output"}, exclude_none=True)

    def failure(self, outputs: Mapping[str, Any]) -> str | None:
        """Return why the outputs of a run do not meet the condition; None if they do."""
        if self.ends is not None:
            return None
        if self.output not in outputs:
            return f"The run has no output {self.output!r}."
        value = outputs[self.output]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if self._holds(text.strip()):
            return None
        ((name, wanted),) = self.conditions.items()
        return f"{self.output} must meet {name}: {wanted!r}, but is {text.strip()[:MOST_SHOWN]!r}."

    def _holds(self, text: str) -> bool:
        ((name, wanted),) = self.conditions.items()
        tests: dict[str, Callable[[], bool]] = {
            "equals": lambda: text == wanted,
            "one_of": lambda: text in wanted,
            "contains": lambda: wanted in text,
            "lacks": lambda: wanted not in text,
            "matches": lambda: re.search(wanted, text) is not None,
            "max_words": lambda: len(text.split()) <= wanted,
        }
        return tests[name]()


class Case(BaseModel):
    """One example of what a workflow must do.

    `fingerprint` groups cases that come from the same kind of failure. `answer` is one that passes
    and may be shown in a prompt, for cases whose checks do not contain it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Id
    workflow: Id
    inputs: dict[str, Any] = {}
    checks: Annotated[tuple[Check, ...], Field(min_length=1)]
    fingerprint: Annotated[str, StringConstraints(max_length=200)] = ""
    about: str = ""
    answer: str = ""

    def failures(self, outputs: Mapping[str, Any]) -> list[str]:
        """Return the messages of all checks that the outputs of a run do not meet."""
        return [text for check in self.checks if (text := check.failure(outputs)) is not None]

    @property
    def texts(self) -> list[str]:
        """All texts in the inputs and checks, for the search for copies."""
        expected = [check.conditions for check in self.checks]
        return list(_strings([self.inputs, expected, self.answer]))

    @property
    def expected(self) -> str | None:
        """An answer that passes: `answer`, or the text that one of the checks asks for."""
        if self.answer:
            return self.answer
        for check in self.checks:
            if wanted := check.equals or check.contains:
                return wanted
        return None


class CaseFile(BaseModel):
    """The content of a file of cases."""

    model_config = ConfigDict(extra="forbid")

    cases: list[Case] = Field(min_length=1)


def read_cases(paths: Iterable[Path]) -> list[Case]:
    """Read files of cases, and all `*.yaml` of a folder, sorted by id.

    Raises `InvalidCases` for a file that is not valid, two cases with one id, and two cases with
    the same workflow and inputs: they could be in different splits.
    """
    found: dict[str, Case] = {}
    inputs: dict[str, str] = {}
    for case in (case for file in _files(paths) for case in _read(file)):
        key = json.dumps([case.workflow, case.inputs], sort_keys=True)
        twin = case.id if case.id in found else inputs.get(key)
        if twin is not None:
            raise InvalidCases(f"The cases {twin!r} and {case.id!r} have the same id or inputs.")
        found[case.id], inputs[key] = case, case.id
    return [found[id] for id in sorted(found)]


def case_file(cases: Sequence[Case]) -> str:
    """Return the YAML of a file with these cases."""
    yaml, text = YAML(typ="safe", pure=True), StringIO()
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    written = [case.model_dump(mode="json", exclude_defaults=True) for case in cases]
    yaml.dump({"cases": written}, text)
    return text.getvalue()


def fingerprint_of(*parts: str) -> str:
    """Return a short stable name of a kind of failure, from what its members have in common."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _files(paths: Iterable[Path]) -> list[Path]:
    files = (sorted(path.glob("*.yaml")) if path.is_dir() else [path] for path in paths)
    return [file for group in files for file in group]


def _read(file: Path) -> list[Case]:
    try:
        value = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
        return CaseFile.model_validate(value).cases
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise InvalidCases(f"{file} cannot be read: {error}.") from error
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in fault["loc"]) or "the file"
        raise InvalidCases(f"{file}, {place}: {fault['msg']}.") from error


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(inner)
