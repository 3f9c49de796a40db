"""The archive of a campaign: one JSON file per candidate, and nothing else to resume from.

Folder of a campaign: `campaign.json` (its settings), `candidates/NNNNN.json`, `gate.json` (the
pairs of the gate), `proposal.json`, `result.json` at the end, and `stopped.json` after a person has
stopped it. Every file is replaced atomically, so a campaign that is
killed at any write goes on from the files that it left.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hearth.files import write_atomic
from prompt_engineering.estimates import interval, posterior_mean
from prompt_engineering.genome import Genome, Id, Operation
from prompt_engineering.splits import Assignment, Split

Count = Annotated[int, Field(ge=0)]
Origin = Literal["seed", "drop", "move", "shorten", "example", "model"]
Status = Literal["racing", "finished", "stopped", "rejected"]
"""`stopped`: the race ended early. `rejected`: a check before the first run failed."""

_Model = TypeVar("_Model", bound=BaseModel)


class InvalidArchive(ValueError):
    """A file of an archive is damaged or of another format."""


class CaseScore(BaseModel):
    """How the runs of one case ended. `message` says why the last failed run did not pass."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    passes: Count = 0
    runs: Count = 0
    tokens: Count = 0
    run_ids: tuple[str, ...] = ()
    message: str = ""
    output: str = ""

    @property
    def rate(self) -> float:
        """The part of the runs that passed."""
        return self.passes / self.runs if self.runs else 0.0


class Candidate(BaseModel):
    """One prompt with its origin and its measured results.

    `joules` is None: runs do not record energy. `diff` is the change to the first parent.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    id: Id
    genome: Genome
    parents: tuple[Id, ...] = ()
    generation: int = 0
    origin: Origin = "seed"
    operations: tuple[Operation, ...] = ()
    diff: str = ""
    rationale: str = ""
    status: Status = "racing"
    reason: str = ""
    learn: dict[str, CaseScore] = {}
    select: dict[str, CaseScore] = {}
    tokens: int = 0
    """Tokens of the mutation and of all runs."""
    joules: float | None = None
    model: str = ""
    split_hashes: dict[Split, str] = {}

    @property
    def passes(self) -> int:
        """Passed runs of the split `select`."""
        return sum(score.passes for score in self.select.values())

    @property
    def runs(self) -> int:
        """Runs of the split `select`."""
        return sum(score.runs for score in self.select.values())

    @property
    def mean(self) -> float:
        """Posterior mean of the pass rate."""
        return posterior_mean(self.passes, self.runs)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the pass rate."""
        return interval(self.passes, self.runs)

    def scored(self, split: Literal["learn", "select"], case: str, score: CaseScore) -> "Candidate":
        """Return the candidate with the score of one more case."""
        before = self.learn if split == "learn" else self.select
        used = score.tokens - before.get(case, CaseScore()).tokens
        update = {split: {**before, case: score}, "tokens": self.tokens + used}
        return self.model_copy(update=update)


class Archive:
    """The files of one campaign. Candidates are cached: one process writes an archive at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def id(self) -> str:
        """The name of the campaign."""
        return self.folder.name

    @cached_property
    def _candidates(self) -> dict[str, Candidate]:
        files = sorted((self.folder / "candidates").glob("[!.]*.json"))
        found = (_read(file, Candidate) for file in files)
        return {candidate.id: candidate for candidate in found}

    @property
    def candidates(self) -> list[Candidate]:
        """All candidates in the order in which they were made. Raises `InvalidArchive`."""
        return list(self._candidates.values())

    def candidate(self, id: str) -> Candidate:
        """Return one candidate. Raises `KeyError`."""
        return self._candidates[id]

    @property
    def next_id(self) -> str:
        """The id of the next candidate."""
        return f"c{len(self._candidates):05}"

    def save(self, candidate: Candidate) -> None:
        """Write the file of a candidate. Raises `OSError`."""
        self._write(f"candidates/{candidate.id}.json", candidate)
        self._candidates[candidate.id] = candidate

    def descendants(self, id: str) -> list[Candidate]:
        """Return the candidates below one, itself not included."""
        below = {id}
        for candidate in self.candidates:
            if below.intersection(candidate.parents):
                below.add(candidate.id)
        return [one for one in self.candidates if one.id in below and one.id != id]

    def read(self, name: str, model: type[_Model]) -> _Model | None:
        """Read another file of the campaign; None where there is none. Raises `InvalidArchive`."""
        file = self.folder / f"{name}.json"
        return _read(file, model) if file.exists() else None

    def write(self, name: str, content: BaseModel) -> None:
        """Write another file of the campaign. Raises `OSError`."""
        self._write(f"{name}.json", content)

    def _write(self, name: str, content: BaseModel) -> None:
        write_atomic(self.folder / name, content.model_dump_json(indent=1) + "\n")


def read_assignment(folder: Path) -> Assignment:
    """Read the splits of all cases so far; empty where there are none. Raises `InvalidArchive`."""
    file = folder / "splits.json"
    if not file.exists():
        return {}
    try:
        value: Assignment = json.loads(file.read_bytes())
    except ValueError as error:
        raise InvalidArchive(f"{file} is not valid JSON: {error}.") from error
    return value


def write_assignment(folder: Path, assignment: Mapping[str, Any]) -> None:
    """Write the splits of all cases, unless they are there already. Raises `OSError`."""
    if read_assignment(folder) != assignment:
        text = json.dumps(dict(sorted(assignment.items())), indent=1)
        write_atomic(folder / "splits.json", text + "\n")


def archives(folder: Path) -> list[Archive]:
    """Return the archives of all campaigns in a folder, by name."""
    return [Archive(file.parent) for file in sorted(folder.glob("*/campaign.json"))]


def total_tokens(candidates: Iterable[Candidate]) -> int:
    """Return the tokens of all mutations and runs of the candidates."""
    return sum(candidate.tokens for candidate in candidates)


def _read(file: Path, model: type[_Model]) -> _Model:
    try:
        return model.model_validate_json(file.read_bytes())
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise InvalidArchive(f"{file} is not valid: {fault['msg']}.") from error
