"""A campaign: search for a better prompt, test the best one at the gate, and propose it.

All state is in the files of the archive. Each step reads them, does one thing and writes one file,
so a campaign that was killed goes on with the same decisions: the generator of each step is seeded
by the campaign's seed and the number of the step.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from prompt_engineering.archive import Archive, Candidate, archives, total_tokens
from prompt_engineering.cases import Case
from prompt_engineering.evaluation import Evaluator, Outcome
from prompt_engineering.gate import LEAST_CASES, Decision, Gate, Pair
from prompt_engineering.genome import Genome, Id, InvalidOperation, diff_of
from prompt_engineering.mechanical import MECHANICAL, Mutation
from prompt_engineering.model_mutator import unseen
from prompt_engineering.prechecks import rejection
from prompt_engineering.racing import hopeless, next_case
from prompt_engineering.selection import Method, select
from prompt_engineering.splits import SPLITS, Assignment, Split, digest, members

SEARCH_SHARE: Final = 0.7
"""Part of the token budget that the search may use; the rest is for the gate."""
MODEL_SHARE: Final = 0.5
"""Part of the mutations that a model makes, where the campaign has one."""
GATE_USES: Final = 3
"""Gates that may use a case before it is retired."""


class CampaignError(ValueError):
    """A campaign cannot start or go on; the message says what to do."""


class Settings(BaseModel):
    """Settings of a campaign, fixed from its start to its end."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    campaign: Id
    created: str
    """ISO 8601, UTC."""
    genome: Genome
    """The live prompt at the start."""
    splits: dict[Split, tuple[Id, ...]]
    split_hashes: dict[Split, str]
    required: tuple[Id, ...] = ()
    """Cases that a proposed prompt must pass."""
    method: Method = "pareto"
    seed: int = 0
    candidates: Annotated[int, Field(ge=1, le=10_000)] = 30
    budget: int = Field(ge=1)
    """Tokens of all runs and mutations."""
    model: str = ""
    """The model that proposes changes; empty for mechanical changes only."""
    gate: bool = True


class Proposal(BaseModel):
    """A proposal for a person to decide, as the application reads it from `proposal.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    campaign: Id
    candidate: Id
    prompt: Id
    document: str
    base: dict[str, Any]
    evidence: dict[str, Any]


class Mutator(Protocol):
    """Proposes changes of a prompt with a model."""

    async def mutate(
        self, parent: Candidate, other: Candidate | None, learn: Mapping[str, Case]
    ) -> Mutation: ...


class Result(BaseModel):
    """How a campaign ended. `decision` is None when no candidate was worth the gate."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    best: str | None
    decision: Decision | None
    tokens: int


class Campaign:
    """Runs one campaign to its end, from wherever its files say that it is."""

    def __init__(
        self,
        archive: Archive,
        settings: Settings,
        cases: Iterable[Case],
        evaluator: Evaluator,
        mutator: Mutator | None = None,
    ) -> None:
        self.archive, self.settings = archive, settings
        self._evaluator, self._mutator = evaluator, mutator
        self._cases = {case.id: case for case in cases}

    async def run(self) -> Result:
        """Search, then test the best candidate at the gate, then write the proposal and the result.

        Raises `RequestFailed` when the application refuses a run or does not answer, and
        `OSError` when a file cannot be written. Call it again to go on.
        """
        if self.archive.read("campaign", Settings) is None:
            self.archive.write("campaign", self.settings)
        while await self._search_step():
            pass
        best = self.best()
        gate = await self._gate(best) if best and self.settings.gate else None
        passed = gate is not None and gate.decision == "promote"
        if best and gate and passed and self.archive.read("proposal", Proposal) is None:
            self.archive.write("proposal", self._proposal(best, gate))
        result = Result(
            best=best.id if best else None,
            decision=gate.decision if gate else None,
            tokens=self.tokens,
        )
        if self.archive.read("result", Result) != result:
            self.archive.write("result", result)
        return result

    @property
    def tokens(self) -> int:
        """Tokens that the campaign has used."""
        gate = self.archive.read("gate", Gate)
        return total_tokens(self.archive.candidates) + (gate.tokens if gate else 0)

    @property
    def first(self) -> Candidate:
        """The candidate that is the live prompt."""
        return self.archive.candidates[0]

    def best(self) -> Candidate | None:
        """The candidate for the gate: better than the live prompt on `select`, and passes the
        required cases. None without one.
        """
        fitting = [one for one in self._pool()[1:] if self._passes_required(one)]
        better = [one for one in fitting if one.mean > self.first.mean or self._repairs(one)]
        return max(better, key=lambda one: (one.interval[0], one.mean), default=None)

    def _passes_required(self, candidate: Candidate) -> bool:
        scores = {**candidate.learn, **candidate.select}
        return all(scores[id].passes == scores[id].runs for id in self._measured_required())

    def _repairs(self, candidate: Candidate) -> bool:
        """Whether the live prompt fails a required case, and this one is as good elsewhere."""
        return not self._passes_required(self.first) and candidate.mean >= self.first.mean

    def _measured_required(self) -> list[str]:
        hidden = self.settings.splits["gate"]
        return [id for id in self.settings.required if id not in hidden]

    def _split(self, split: Split) -> list[Case]:
        return [self._cases[id] for id in self.settings.splits[split]]

    def _pool(self) -> list[Candidate]:
        return [one for one in self.archive.candidates if one.status == "finished"]

    async def _search_step(self) -> bool:
        """Do one thing of the search; False when it has ended."""
        candidates = self.archive.candidates
        if not candidates:
            self.archive.save(self._candidate("c00000", self.settings.genome))
            return True
        racing = next((one for one in candidates if one.status == "racing"), None)
        if self.tokens >= SEARCH_SHARE * self.settings.budget:
            return False
        if racing is not None:
            await self._race(racing)
        elif len(candidates) < self.settings.candidates:
            await self._propose()
        else:
            return False
        return True

    def _candidate(self, id: str, genome: Genome, **fields: Any) -> Candidate:
        return Candidate(id=id, genome=genome, split_hashes=self.settings.split_hashes, **fields)

    async def _race(self, candidate: Candidate) -> None:
        """Run the candidate on one more case, or end its race."""
        required = [self._cases[id] for id in self._measured_required()]
        learn = next((case for case in required if _is_new(case, candidate)), None)
        case = learn or next_case(candidate, self._split("select"))
        if case is None:
            self.archive.save(candidate.model_copy(update={"status": "finished"}))
        elif learn is None and hopeless(candidate, self._pool()):
            reason = f"Stopped after {candidate.runs} cases: below the median of the others."
            update = {"status": "stopped", "reason": reason}
            self.archive.save(candidate.model_copy(update=update))
        else:
            await self._measure(candidate, case)

    async def _measure(self, candidate: Candidate, case: Case) -> Candidate:
        outcome = await self._evaluator.evaluate(case, candidate.genome)
        split: Literal["learn", "select"] = (
            "select" if case.id in self.settings.splits["select"] else "learn"
        )
        before = (candidate.select if split == "select" else candidate.learn).get(case.id)
        after = candidate.scored(split, case.id, outcome.added_to(before))
        after = after.model_copy(update={"model": outcome.model or after.model})
        self.archive.save(after)
        return after

    async def _propose(self) -> None:
        """Make the next candidate and check it; the check may reject it before its first run."""
        id = self.archive.next_id
        rng = random.Random(f"{self.settings.seed}:{id}")
        parent = select(self.settings.method, self._pool(), rng)
        mutation = await self._mutation(parent, rng)
        try:
            genome = parent.genome.changed(mutation.operations)
        except InvalidOperation as error:
            genome, reason = parent.genome, str(error)
        else:
            reason = self._rejection(genome)
        self.archive.save(
            self._candidate(
                id,
                genome,
                parents=(parent.id,),
                generation=parent.generation + 1,
                origin=mutation.origin,
                operations=mutation.operations,
                diff=diff_of(parent.genome.text, genome.text),
                rationale=mutation.rationale,
                status="rejected" if reason else "racing",
                reason=reason,
                tokens=mutation.tokens,
            )
        )

    def _rejection(self, genome: Genome) -> str:
        pool = [one.genome for one in self.archive.candidates]
        return rejection(genome, self.settings.genome, pool, self._split("learn")) or ""

    async def _mutation(self, parent: Candidate, rng: random.Random) -> Mutation:
        learn = self._split("learn")
        if self._mutator is not None and rng.random() < MODEL_SHARE:
            for case in unseen(parent, learn):
                parent = await self._measure(parent, case)
            if any(score.message for score in parent.learn.values()):
                other = select(self.settings.method, self._pool(), rng)
                return await self._mutator.mutate(parent, other, {case.id: case for case in learn})
        operators = rng.sample(MECHANICAL, len(MECHANICAL))
        made = (operator(parent.genome, learn, rng) for operator in operators)
        nothing = Mutation("drop", (), "No operator can change this prompt.")
        return next((one for one in made if one is not None), nothing)

    async def _gate(self, best: Candidate) -> Gate:
        """Compare pair by pair until there is a decision; every pair is one write."""
        gate = self.archive.read("gate", Gate)
        if gate is None:
            gate = Gate(candidate=best.id, cases=self.settings.splits["gate"])
        while gate.decision == "open":
            if self.tokens >= self.settings.budget:
                gate = gate.model_copy(update={"decision": "no_budget"})
            else:
                case = self._cases[gate.cases[len(gate.pairs)]]
                gate = gate.with_pair(await self._pair(case, self.archive.candidate(best.id)))
            self.archive.write("gate", gate)
        return gate

    async def _pair(self, case: Case, best: Candidate) -> Pair:
        """Run a case with both prompts, in random order: what drifts hits both alike."""
        rng = random.Random(f"{self.settings.seed}:gate:{case.id}")
        found: dict[bool, Outcome] = {}
        for is_new in rng.sample([False, True], 2):
            genome = best.genome if is_new else self.settings.genome
            found[is_new] = await self._evaluator.evaluate(case, genome)
        return Pair(
            case=case.id,
            old=found[False].passed,
            new=found[True].passed,
            old_tokens=found[False].tokens,
            new_tokens=found[True].tokens,
            runs=(found[False].run, found[True].run),
        )

    def _proposal(self, best: Candidate, gate: Gate) -> Proposal:
        return Proposal(
            campaign=self.settings.campaign,
            candidate=best.id,
            prompt=best.genome.prompt,
            document=best.genome.document,
            base=self.settings.genome.model_dump(include={"tags", "text"}, mode="json"),
            evidence={
                "wins": gate.wins,
                "losses": gate.losses,
                "pairs": len(gate.pairs),
                "e": round(gate.e, 2),
                "cost": round(gate.cost, 3),
                "required": list(self._measured_required()),
                "old_passed": sum(pair.old for pair in gate.pairs),
                "new_passed": sum(pair.new for pair in gate.pairs),
            },
        )


def _is_new(case: Case, candidate: Candidate) -> bool:
    return case.id not in candidate.learn and case.id not in candidate.select


def fresh_gate_cases(
    cases: Sequence[Case], folder: Path, *, campaign: str, uses: int = GATE_USES
) -> list[Case]:
    """Return the gate cases that other campaigns used fewer than `uses` times, the least used
    first.
    """
    counts = {case.id: 0 for case in cases}
    for archive in archives(folder):
        gate = archive.read("gate", Gate) if archive.id != campaign else None
        for pair in gate.pairs if gate else ():
            if pair.case in counts:
                counts[pair.case] += 1
    fresh = [case for case in cases if counts[case.id] < uses]
    return sorted(fresh, key=lambda case: counts[case.id])


def divided(
    cases: Sequence[Case], assignment: Assignment, folder: Path, campaign: str
) -> dict[Split, tuple[str, ...]]:
    """Return the ids of each split, retired gate cases left out."""
    found = {split: members(cases, assignment, split) for split in SPLITS}
    found["gate"] = fresh_gate_cases(found["gate"], folder, campaign=campaign)
    return {split: tuple(case.id for case in chosen) for split, chosen in found.items()}


def check_splits(splits: Mapping[Split, Sequence[str]], *, gate: bool) -> None:
    """Raise `CampaignError` when a split has too few cases."""
    if gate and len(splits["gate"]) < LEAST_CASES:
        raise CampaignError(
            f"The gate has {len(splits['gate'])} unused cases and needs {LEAST_CASES}."
            " Add cases, or use --no-gate to search without a proposal."
        )
    if not splits["select"]:
        raise CampaignError("No case is in the split `select`. Add cases.")


def split_hashes(
    cases: Mapping[str, Case], splits: Mapping[Split, Sequence[str]]
) -> dict[Split, str]:
    """Return the hash of the cases of each split."""
    return {split: digest(cases[id] for id in ids) for split, ids in splits.items()}
