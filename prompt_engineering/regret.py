"""Watch promoted prompts: one in ten live runs also runs with the prompt before the promotion.

A run is compared only if a repetition has no effect: all of its steps were pure, read something or
asked a model, and it belongs to no conversation, which has changed since then. Both runs are judged
by the checks that all cases of the workflow have in common. When the evidence for the promoted
prompt falls below 0.05, the rollback is proposed; a person decides.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from hearth.files import write_atomic
from pipecatapp.client import segment
from prompt_engineering.archive import InvalidArchive
from prompt_engineering.cases import Case, Check, read_cases
from prompt_engineering.evaluation import CALLER, EFFECTS, AppClient, RunEvaluator
from prompt_engineering.failures import prompt_of
from prompt_engineering.gate import GIVE_UP_BELOW, evidence
from prompt_engineering.genome import Genome, Id

SHARE: Final = 10
"""One of so many live runs is compared."""
RECENT: Final = 200
"""Live runs that are looked at, the newest ones."""
ENDED: Final = ("done", "failed")

Json = Mapping[str, Any]


class LivePair(BaseModel):
    """A live run, whether it passed, and the same for the run with the old prompt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str
    old_run: str
    new: bool
    old: bool


class Evidence(BaseModel):
    """Pairs so far; `wins`: only the promoted prompt passed, `losses`: only the old one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pairs: int
    wins: int
    losses: int
    e: float


class Regret(BaseModel):
    """The comparison of one promotion, which `campaign` and `at` identify."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: Id
    campaign: Id
    at: str
    pairs: tuple[LivePair, ...] = ()
    decision: Literal["open", "roll_back"] = "open"
    evidence: Evidence = Evidence(pairs=0, wins=0, losses=0, e=1.0)

    def with_pair(self, pair: LivePair) -> "Regret":
        """Return the comparison after one more pair, with what follows from it."""
        pairs = (*self.pairs, pair)
        wins = sum(one.new and not one.old for one in pairs)
        losses = sum(one.old and not one.new for one in pairs)
        e = evidence(wins, losses)
        update = {
            "pairs": pairs,
            "evidence": Evidence(pairs=len(pairs), wins=wins, losses=losses, e=round(e, 4)),
            "decision": "roll_back" if e < GIVE_UP_BELOW else "open",
        }
        return self.model_copy(update=update)


def read_regret(folder: Path, prompt: str) -> Regret | None:
    """Read the comparison of a promoted prompt. Raises `InvalidArchive`."""
    file = _file(folder, prompt)
    if not file.exists():
        return None
    try:
        return Regret.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise InvalidArchive(f"{file} is not valid.") from error


async def watch_promotions(client: AppClient, folder: Path, *, share: int = SHARE) -> list[Regret]:
    """Compare new live runs of each promoted prompt; return the comparisons that have changed.

    Each pair is one write, so an interrupted watch goes on. Raises `RequestFailed`, `InvalidCases`
    and `InvalidArchive`.
    """
    promotions = (await client.request("GET", "/api/evolution"))["promotions"]
    found = [await _watch(client, folder, promotion, share) for promotion in promotions]
    return [regret for regret in found if regret is not None]


def is_sampled(run: str, share: int = SHARE) -> bool:
    """Whether a run is one of those that are compared; the hash of its id decides."""
    return int.from_bytes(hashlib.sha256(run.encode()).digest()[:8], "big") % share == 0


async def _watch(client: AppClient, folder: Path, promotion: Json, share: int) -> Regret | None:
    known = {name: promotion[name] for name in ("prompt", "campaign", "at")}
    regret = read_regret(folder, promotion["prompt"])
    if regret is None or (regret.campaign, regret.at) != (promotion["campaign"], promotion["at"]):
        regret = Regret.model_validate(known)
    before = regret
    for run in await _live_runs(client, promotion, regret, share):
        if regret.decision != "open":
            break
        pair = await _pair(client, folder, promotion, run)
        if pair is not None:
            regret = regret.with_pair(pair)
            write_atomic(_file(folder, regret.prompt), regret.model_dump_json(indent=1) + "\n")
    return regret if regret != before else None


async def _live_runs(client: AppClient, promotion: Json, regret: Regret, share: int) -> list[str]:
    """Return the sampled runs since the promotion that were not compared, the oldest first."""
    query = {"since": promotion["at"], "limit": RECENT}
    runs = (await client.request("GET", "/api/runs", params=query))["runs"]
    workflows = (await client.request("GET", "/api/workflows"))["workflows"]
    stored, compared = {one["id"] for one in workflows}, {pair.run for pair in regret.pairs}
    return [
        str(run["id"])
        for run in reversed(runs)
        if run["status"] in ENDED
        and run["caller"] != CALLER
        and run["conversation"] is None
        and run["workflow"] in stored
        and run["id"] not in compared
        and is_sampled(run["id"], share)
    ]


async def _pair(client: AppClient, folder: Path, promotion: Json, run: str) -> LivePair | None:
    """Repeat a live run with the old prompt; None if it did not use the prompt or had effects."""
    live = await client.request("GET", f"/api/runs/{segment(run)}")
    prompts = (await client.request("GET", "/api/prompts"))["prompts"]
    effects = {step["effect"] for step in live["steps"] if step["effect"]}
    if effects - {*EFFECTS} or prompt_of(live["steps"], prompts) != promotion["prompt"]:
        return None
    case = Case(
        id="live",
        workflow=live["workflow"],
        inputs=live["inputs"],
        checks=common_checks(folder / "cases", live["workflow"]),
    )
    old = await RunEvaluator(client).evaluate(case, _old(promotion))
    passed = live["status"] == "done" and not case.failures(live["outputs"] or {})
    return LivePair(run=run, old_run=old.run, new=passed, old=old.passed)


def common_checks(folder: Path, workflow: str) -> tuple[Check, ...]:
    """Return the checks that every case of a workflow has; at least that a run ends as done."""
    cases = [one for one in read_cases([folder]) if one.workflow == workflow]
    shared = cases[0].checks if cases else ()
    common = tuple(check for check in shared if all(check in one.checks for one in cases))
    return common or (Check(ends="done"),)


def _old(promotion: Json) -> Genome:
    """The prompt that was live before the promotion, which the gate compared with."""
    base = promotion["base"]
    return Genome(prompt=promotion["prompt"], tags=tuple(base["tags"]), text=base["text"])


def _file(folder: Path, prompt: str) -> Path:
    return folder / "regret" / f"{prompt}.json"
