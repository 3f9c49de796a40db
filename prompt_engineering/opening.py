"""Open a campaign: read its cases and the live prompt, and continue it where it exists already."""

import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Final

from hearth.settings import Settings as HearthSettings
from pipecatapp.client import Client, connect, segment
from prompt_engineering.archive import Archive, read_assignment, write_assignment
from prompt_engineering.campaign import (
    Campaign,
    CampaignError,
    Settings,
    check_splits,
    divided,
    split_hashes,
)
from prompt_engineering.cases import Case, read_cases
from prompt_engineering.evaluation import RunEvaluator, tokens_of
from prompt_engineering.genome import Genome
from prompt_engineering.model_mutator import LEARN_CASES, ModelMutator
from prompt_engineering.selection import Method
from prompt_engineering.splits import assign

MEASURED_RUNS: Final = 20
"""Earlier runs of a workflow that the estimate of its tokens is the mean of."""
CHARACTERS_PER_TOKEN: Final = 4
LOCK_ATTEMPTS: Final = 5
LOCK_PAUSE: Final = 0.02
"""Seconds."""
ANSWER_TOKENS: Final = 200
"""Assumed length of an answer where no earlier run tells it."""


@dataclass(frozen=True)
class Options:
    """A request for a campaign. `campaign` is empty for a new one."""

    prompt: str
    cases: Sequence[Path] = ()
    test_cases: Sequence[Path] = ()
    """Files of cases that a proposed prompt must pass."""
    required: tuple[str, ...] = ()
    """Ids of further cases that it must pass."""
    campaign: str = ""
    method: Method = "pareto"
    seed: int = 0
    candidates: int = 30
    budget: int = 1_000_000
    model: str = ""
    gate: bool = True
    archive: Path | None = None
    """Folder of splits, cases and campaigns; `evolution` of the state directory by default."""
    state_dir: Path | None = None

    def named(self, campaign: str) -> "Options":
        """Return the same options for another campaign."""
        return replace(self, campaign=campaign)

    def adapting(self, prompt: str, case: str, campaign: str) -> "Options":
        """Return the same options for a campaign that has to pass one case."""
        return replace(self, prompt=prompt, required=(case,), campaign=campaign)

    @property
    def folder(self) -> Path:
        """The folder of splits, cases and campaigns."""
        return self.archive or evolution_folder(self.state_dir)

    @property
    def case_paths(self) -> list[Path]:
        """Files and folders of cases; the folder `cases` by default."""
        cases = self.cases or [self.folder / "cases"]
        return [*cases, *(path for path in self.test_cases if path.parent not in cases)]


@dataclass(frozen=True)
class Estimate:
    """Upper bounds of a campaign's usage. `measured` is False where tokens are a guess."""

    campaign: str
    """The name that the campaign would have."""
    search_runs: int
    gate_runs: int
    tokens_per_run: int
    measured: bool
    budget: int

    @property
    def tokens(self) -> int:
        """Tokens of all runs, never more than the budget and the run that reaches it."""
        runs = self.search_runs + self.gate_runs
        return min(self.budget + self.tokens_per_run, runs * self.tokens_per_run)


def evolution_folder(state_dir: Path | None) -> Path:
    """Return the folder of campaigns of a state directory; None means that of the settings."""
    return (state_dir or HearthSettings.load().state_dir) / "evolution"


@asynccontextmanager
async def open_campaign(options: Options) -> AsyncIterator[Campaign]:
    """Open a campaign for the block; no other one can be open in the same folder meanwhile.

    Raises `CampaignError`, `InvalidCases`, `InvalidArchive`, `RequestFailed`, and what
    `pipecatapp.client.connect` raises.
    """
    with locked(options.folder):
        async with connect(options.state_dir) as client:
            yield await campaign_of(client, options)


async def campaign_of(client: Client, options: Options) -> Campaign:
    """Return the campaign that the options name, or a new one. Raises as `open_campaign` does."""
    cases = read_cases(options.case_paths)
    campaigns = options.folder / "campaigns"
    name = options.campaign or _new_name(campaigns, options.prompt)
    archive = Archive(campaigns / name)
    if (archive.folder / "stopped.json").exists():
        raise CampaignError(f"The campaign {name!r} was stopped. Start a new campaign.")
    settings = archive.read("campaign", Settings)
    if settings is None:
        settings = await _settings(client, options, name, cases)
    _check_unchanged(settings, options, cases)
    mutator = ModelMutator(client, settings.model) if settings.model else None
    return Campaign(archive, settings, cases, RunEvaluator(client), mutator)


async def estimate(client: Client, options: Options) -> Estimate:
    """Return what a campaign would cost; nothing is run or written. Raises as `campaign_of`."""
    name = options.campaign or _new_name(options.folder / "campaigns", options.prompt)
    cases = read_cases(options.case_paths)
    settings = await _settings(client, options, name, cases, dry=True)
    splits = settings.splits
    per_candidate = len({*splits["select"], *settings.required} - {*splits["gate"]})
    learn = min(LEARN_CASES, len(splits["learn"])) if settings.model else 0
    tokens, measured = await _tokens_per_run(client, options, settings.genome)
    return Estimate(
        campaign=name,
        search_runs=settings.candidates * (per_candidate + learn),
        gate_runs=2 * len(splits["gate"]) if settings.gate else 0,
        tokens_per_run=tokens,
        measured=measured,
        budget=settings.budget,
    )


async def _settings(
    client: Client, options: Options, name: str, cases: Sequence[Case], *, dry: bool = False
) -> Settings:
    stored = await client.request("GET", f"/api/prompts/{segment(options.prompt)}")
    tags = tuple(sorted(stored["tags"]))
    genome = Genome(prompt=stored["id"], tags=tags, text=stored["text"])
    assignment = assign(cases, read_assignment(options.folder))
    splits = divided(cases, assignment, options.folder / "campaigns", name)
    check_splits(splits, gate=options.gate)
    if not dry:
        write_assignment(options.folder, assignment)
    required = read_cases(options.test_cases) if options.test_cases else []
    return Settings(
        campaign=name,
        created=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        genome=genome,
        splits=splits,
        split_hashes=split_hashes({case.id: case for case in cases}, splits),
        required=(*options.required, *(case.id for case in required)),
        method=options.method,
        seed=options.seed,
        candidates=options.candidates,
        budget=options.budget,
        model=options.model,
        gate=options.gate,
    )


def _check_unchanged(settings: Settings, options: Options, cases: Sequence[Case]) -> None:
    """Scores of other cases, or for another prompt, do not compare."""
    known = {case.id: case for case in cases}
    if settings.genome.prompt != options.prompt:
        raise CampaignError(f"The campaign {settings.campaign!r} is for another prompt.")
    missing = {id for ids in settings.splits.values() for id in ids} - known.keys()
    if missing or split_hashes(known, settings.splits) != settings.split_hashes:
        raise CampaignError(
            f"The cases have changed since the campaign {settings.campaign!r} began."
            " Start a new campaign."
        )


async def _tokens_per_run(client: Client, options: Options, genome: Genome) -> tuple[int, bool]:
    workflows = {case.workflow for case in read_cases(options.case_paths)}
    used: list[int] = []
    for workflow in sorted(workflows):
        query = {"workflow": workflow, "limit": MEASURED_RUNS, "status": "done"}
        used += map(tokens_of, (await client.request("GET", "/api/runs", params=query))["runs"])
    if any(used):
        return round(mean(used)), True
    return len(genome.text) // CHARACTERS_PER_TOKEN + ANSWER_TOKENS, False


def _new_name(campaigns: Path, prompt: str) -> str:
    taken = {folder.name for folder in campaigns.glob(f"{prompt}-*")}
    number = len(taken) + 1
    while f"{prompt}-{number:03}" in taken:
        number += 1
    return f"{prompt}-{number:03}"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of campaigns. Raises `CampaignError` while another one does."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(lock)
        yield
    finally:
        os.close(lock)


def _acquire(lock: int) -> None:
    """Lock an open file. Tries again for a moment: the page takes a shared lock to look at it."""
    for attempt in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if attempt == LOCK_ATTEMPTS - 1:
                raise CampaignError("Another campaign is running. Wait until it ends.") from error
            time.sleep(LOCK_PAUSE)
        else:
            return
