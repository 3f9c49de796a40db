"""Abilities of a model on this machine, as measured by `hearth models eval`."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hearth.files import write_atomic
from hearth.models.errors import EvaluationsInvalid
from hearth.service.state import StateDir

Skill = Literal["tools", "json", "blocks", "function", "english", "german"]
"""The abilities that are measured: call a tool, produce JSON for a schema, change code by
SEARCH/REPLACE blocks or as a whole function, answer in English and in German.
"""
SKILLS: Final[tuple[Skill, ...]] = get_args(Skill)


class Score(BaseModel):
    """The numbers of attempted and completed tasks of one skill."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tried: int = Field(ge=0)
    done: int = Field(ge=0)


class Evaluation(BaseModel):
    """The measurements of one model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    at: datetime
    seconds: float
    """Duration of the evaluation."""
    tokens_per_second: float | None
    """Speed of generation, without the time for the prompt; None if it was not measured."""
    scores: dict[Skill, Score]

    def summary(self) -> str:
        """Return the scores and the speed in one line."""
        parts = [f"{name} {score.done}/{score.tried}" for name, score in self.scores.items()]
        speed = self.tokens_per_second
        return ", ".join([*parts, *([] if speed is None else [f"{speed:.0f} tokens/s"])])


_FILE: Final = TypeAdapter(dict[str, Evaluation])


def evaluations_file(state: StateDir) -> Path:
    """Return the path of the file of all evaluations, which may not exist."""
    return state.root / "evaluations.json"


def evaluations(state: StateDir) -> Mapping[str, Evaluation]:
    """Return the last evaluation of each model. Raises `EvaluationsInvalid`."""
    path = evaluations_file(state)
    try:
        return _FILE.validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValidationError as error:
        raise EvaluationsInvalid(path) from error


def store(state: StateDir, evaluation: Evaluation) -> None:
    """Replace the evaluation of a model. Raises `EvaluationsInvalid` and `OSError`."""
    stored = {**evaluations(state), evaluation.model: evaluation}
    write_atomic(evaluations_file(state), _FILE.dump_json(stored, indent=2) + b"\n", mode=0o600)
