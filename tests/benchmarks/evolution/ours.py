"""A campaign of `prompt_engineering` in the synthetic world: the product's search and gate.

Only the runs are drawn from the world, and the files are kept in memory. `python -m … FIRST COUNT
BUDGET` prints a JSON line for each campaign.
"""

import asyncio
import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from prompt_engineering.archive import Archive, Candidate
from prompt_engineering.campaign import Campaign, Proposal, Settings
from prompt_engineering.cases import Case, Check
from prompt_engineering.evaluation import Outcome
from prompt_engineering.gate import Gate
from prompt_engineering.genome import Genome, operations_between
from prompt_engineering.mechanical import Mutation
from prompt_engineering.splits import Split
from tests.benchmarks.evolution.world import World

COUNTS: Mapping[Split, int] = {"learn": 30, "select": 50, "gate": 600}
CANDIDATES = 1000
"""More than any budget allows."""

_Model = TypeVar("_Model", bound=BaseModel)


class MemoryArchive(Archive):
    """An archive whose files are objects: 300 campaigns would sync a million files."""

    def __init__(self) -> None:
        super().__init__(Path("memory"))
        self._files: dict[str, BaseModel] = {}

    def read(self, name: str, model: type[_Model]) -> _Model | None:
        found = self._files.get(f"{name}.json")
        assert found is None or isinstance(found, model)
        return found

    def _write(self, name: str, content: BaseModel) -> None:
        self._files[name] = content


class WorldRuns:
    """Evaluator and mutator of one world."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._rng = world, random.Random(f"ours {seed}")

    async def evaluate(self, case: Case, genome: Genome) -> Outcome:
        """Draw one run; it costs one token."""
        passed = self._rng.random() < self._world.rate(genome.text, case.id)
        return Outcome("run", passed, 1, "" if passed else "It failed.", "")

    async def mutate(
        self, parent: Candidate, other: Candidate | None, learn: Mapping[str, Case]
    ) -> Mutation:
        """Change a rule; free of cost, as for the peer."""
        del other, learn
        text = self._world.mutated(parent.genome.text, self._rng)
        operations = operations_between(parent.genome.text, text)
        return Mutation("model", tuple(operations), "A rule was changed.")


def campaign(seed: int, budget: int) -> dict[str, Any]:
    """Run one campaign with as many runs as the budget allows."""
    world = World(seed)
    splits = {split: tuple(f"{split}-{n}" for n in range(count)) for split, count in COUNTS.items()}
    check = (Check(ends="done"),)
    cases = [Case(id=id, workflow="w", checks=check) for ids in splits.values() for id in ids]
    settings = Settings(
        campaign="c", created="", genome=Genome(prompt="p", tags=("p",), text=world.first),
        splits=splits, split_hashes={}, seed=seed, candidates=CANDIDATES, budget=budget, model="m",
    )  # fmt: skip
    archive, runs = MemoryArchive(), WorldRuns(world, seed)
    result = asyncio.run(Campaign(archive, settings, cases, runs, runs).run())
    proposal, gate = archive.read("proposal", Proposal), archive.read("gate", Gate)
    best = archive.candidate(result.best).genome.text if result.best else world.first
    shipped = proposal is not None
    passed = proposal.evidence["new_passed"] / proposal.evidence["pairs"] if proposal else None
    return {
        "seed": seed,
        "shipped": shipped,
        "reported": passed,
        "true": world.true(best if shipped else world.first),
        "first": world.true(world.first),
        "best": world.true(best),
        "pairs": len(gate.pairs) if gate else 0,
        "candidates": len(archive.candidates),
    }


if __name__ == "__main__":
    first, count, runs_allowed = map(int, sys.argv[1:])
    for number in range(first, first + count):
        sys.stdout.write(json.dumps(campaign(number, runs_allowed)) + "\n")
        sys.stdout.flush()
