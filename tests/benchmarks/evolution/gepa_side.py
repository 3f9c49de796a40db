"""GEPA in the synthetic world. Run in its own environment: `python -m … FIRST COUNT BUDGET`.

Prints a JSON line for each campaign: what it ships, the score that it reports, and the truth.
"""

import json
import random
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import gepa
from gepa.core.adapter import EvaluationBatch

from tests.benchmarks.evolution.world import World

LEARN, SELECT = 30, 50
NAME = "system_prompt"


class Adapter:
    """What GEPA evaluates with; a run is one draw from the world."""

    def __init__(self, world: World, seed: int) -> None:
        self.propose_new_texts = self._propose
        self._world, self._rng = world, random.Random(f"gepa {seed}")

    def evaluate(
        self,
        batch: list[str],
        candidate: dict[str, str],
        capture_traces: bool = False,  # noqa: FBT001, FBT002 (the peer calls it so)
    ) -> Any:
        """Run a candidate on cases."""
        rates = [self._world.rate(candidate[NAME], case) for case in batch]
        scores = [float(self._rng.random() < rate) for rate in rates]
        traces = [{"case": case} for case in batch] if capture_traces else None
        return EvaluationBatch(outputs=list(batch), scores=scores, trajectories=traces)

    def make_reflective_dataset(
        self, candidate: dict[str, str], batch: Any, components: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """What a model would see of the runs."""
        return {name: [{"case": case} for case in batch.outputs] for name in components}

    def _propose(
        self, candidate: dict[str, str], dataset: object, components: list[str]
    ) -> dict[str, str]:
        return {name: self._world.mutated(candidate[name], self._rng) for name in components}


class Quiet:
    """A logger that logs nothing."""

    def log(self, message: str) -> None:
        """Log nothing."""


def campaign(seed: int, budget: int) -> dict[str, Any]:
    """Run one campaign with as many runs as the budget allows."""
    world = World(seed)
    result = gepa.optimize(
        seed_candidate={NAME: world.first},
        trainset=[f"learn-{n}" for n in range(LEARN)],
        valset=[f"select-{n}" for n in range(SELECT)],
        adapter=Adapter(world, seed),
        max_metric_calls=budget,
        skip_perfect_score=False,
        logger=Quiet(),
        seed=seed,
    )
    text = result.best_candidate[NAME]
    return {
        "seed": seed,
        "shipped": text != world.first,
        "reported": result.val_aggregate_scores[result.best_idx],
        "true": world.true(text),
        "first": world.true(world.first),
    }


if __name__ == "__main__":
    first, count, budget = map(int, sys.argv[1:])
    for number in range(first, first + count):
        sys.stdout.write(json.dumps(campaign(number, budget)) + "\n")
