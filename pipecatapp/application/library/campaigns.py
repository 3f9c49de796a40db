"""Start, pause and stop campaigns: each runs in a process of `prompt_engineering`.

The files of a campaign are all of its state: a pause ends the process, and a new one goes on from
them. One campaign runs at a time.
"""

import asyncio
import json
import re
import sys
from asyncio.subprocess import PIPE
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import structlog
from pydantic import BaseModel, ConfigDict, Field

from hearth.files import write_atomic
from hearth.process.child import KILL, Child, Streams
from hearth.service.state import is_locked
from pipecatapp.application.library.promotion_records import ID
from pipecatapp.application.library.promotions import UnknownCampaign, object_in
from pipecatapp.workflow.storage import now

log = structlog.get_logger()

WORKER: Final = "prompt_engineering.worker"
STARTED_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.05
ENDED: Final = ("give_up", "promote", "too_expensive", "exhausted", "no_budget")
"""Decisions of a gate after which a campaign has nothing left to do."""

State = Literal["running", "elsewhere", "paused", "stopped", "ended"]
"""`elsewhere`: a command runs a campaign, which may be this one."""

Json = dict[str, Any]


class CampaignRefused(ValueError):
    """A campaign cannot be estimated or started; the message says why."""


class CampaignBusy(ValueError):
    """The campaign, or another one, is in a state in which this cannot be done."""


class CampaignOrder(BaseModel):
    """A new campaign. `budget` is in tokens; without a `model` the changes are mechanical."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: str = Field(pattern=ID, max_length=200)
    candidates: Annotated[int, Field(ge=1, le=10_000)] = 30
    budget: Annotated[int, Field(ge=1)] = 1_000_000
    method: str = "pareto"
    seed: int = 0
    model: str = Field("", max_length=200)


class CampaignCost(BaseModel):
    """Upper bounds of what a campaign uses. `measured` is False where tokens are a guess."""

    campaign: str
    search_runs: int
    gate_runs: int
    tokens_per_run: int
    measured: bool
    budget: int
    tokens: int


class CampaignState(BaseModel):
    """The state of a campaign. `error` is why its last process failed."""

    state: State
    error: str = ""


class CampaignRunner:
    """The campaign process of one instance. `key` opens the instance for the process."""

    def __init__(self, state_dir: Path, *, key: str, ca_file: Path | None = None) -> None:
        self._folder = state_dir / "evolution"
        self._common = {"key": key, "state_dir": str(state_dir)}
        if ca_file is not None:
            self._common["ca_file"] = str(ca_file)
        self._starting = asyncio.Lock()
        self._running: tuple[str, Child] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._errors: dict[str, str] = {}

    async def estimate(self, order: CampaignOrder, address: str) -> CampaignCost:
        """Return what a campaign would cost; nothing is run. Raises `CampaignRefused`."""
        child = await self._spawn({"action": "estimate", **order.model_dump()}, address)
        return CampaignCost.model_validate(await _answer(child))

    async def start(self, order: CampaignOrder, address: str) -> str:
        """Start a new campaign and return its name once its first file is written.

        Raises `CampaignRefused`, and `CampaignBusy` while a campaign runs.
        """
        async with self._starting:
            self._check_free()
            cost = await self.estimate(order, address)
            await self._run({**order.model_dump(), "campaign": cost.campaign}, address)
        return cost.campaign

    async def resume(self, campaign: str, address: str) -> None:
        """Go on with a paused campaign. Raises as `start` does, and `UnknownCampaign`."""
        async with self._starting:
            head = self._head(campaign)
            if (state := self.state(campaign).state) != "paused":
                raise CampaignBusy(f"The campaign {campaign!r} is not paused: it is {state}.")
            self._check_free()
            prompt = str(head["genome"]["prompt"])
            await self._run({"prompt": prompt, "campaign": campaign}, address)

    async def pause(self, campaign: str) -> None:
        """End the process of a campaign. Raises `UnknownCampaign`, and `CampaignBusy` if none."""
        self._head(campaign)
        if self._running is None or self._running[0] != campaign:
            raise CampaignBusy(f"The campaign {campaign!r} does not run here.")
        await self.close()

    async def stop(self, campaign: str) -> None:
        """End a campaign permanently.

        Raises `UnknownCampaign`, and `CampaignBusy` if it has ended.
        """
        self._head(campaign)
        state = self.state(campaign).state
        if state not in ("running", "paused"):
            raise CampaignBusy(f"The campaign {campaign!r} cannot be stopped: it is {state}.")
        if state == "running":
            await self.close()
        stopped = json.dumps({"at": now()})
        write_atomic(self._folder / "campaigns" / campaign / "stopped.json", stopped + "\n")

    def state(self, campaign: str) -> CampaignState:
        """Return the current state of a campaign."""
        folder = self._folder / "campaigns" / campaign
        if self._running is not None and self._running[0] == campaign:
            return CampaignState(state="running")
        if _has_ended(folder):
            return CampaignState(state="ended")
        if (folder / "stopped.json").exists():
            return CampaignState(state="stopped")
        if self._running is None and self._is_locked():
            return CampaignState(state="elsewhere")
        return CampaignState(state="paused", error=self._errors.get(campaign, ""))

    async def close(self) -> None:
        """End the process, if there is one, and wait until it is gone."""
        if self._running is not None and self._watching is not None:
            watching = self._watching
            await self._running[1].stop(KILL)
            await watching

    async def _run(self, fields: Json, address: str) -> None:
        campaign = str(fields["campaign"])
        child = await self._spawn({"action": "run", **fields}, address)
        self._errors.pop(campaign, None)
        self._running = (campaign, child)
        self._watching = asyncio.create_task(self._watch(campaign, child))
        head = self._folder / "campaigns" / campaign / "campaign.json"
        try:
            async with asyncio.timeout(STARTED_SECONDS):
                while not head.exists() and not self._watching.done():
                    await asyncio.wait({self._watching}, timeout=LOOK_SECONDS)
        except TimeoutError as error:
            await self.close()
            raise CampaignRefused(
                f"The campaign did not start within {STARTED_SECONDS:.0f} s, and was ended."
            ) from error
        if reason := self._errors.get(campaign):
            raise CampaignRefused(reason)

    async def _watch(self, campaign: str, child: Child) -> None:
        try:
            answer = await _answer(child)
        except CampaignRefused as error:
            self._errors[campaign] = str(error)
            log.warning("campaign_failed", campaign=campaign, reason=str(error))
        else:
            log.info("campaign_process_ended", campaign=campaign, decision=answer.get("decision"))
        finally:
            self._running = None

    async def _spawn(self, fields: Json, address: str) -> Child:
        child = await Child.spawn(
            sys.executable, "-P", "-m", WORKER,
            streams=Streams(stdin=PIPE, stdout=PIPE), new_group=False,
        )  # fmt: skip
        stdin = child.process.stdin
        assert stdin is not None
        order = {**self._common, "address": address, **fields}
        stdin.write(json.dumps(order).encode() + b"\n")
        # A worker that has ended already says why on its output.
        with suppress(ConnectionError):
            await stdin.drain()
        stdin.close()
        return child

    def _check_free(self) -> None:
        if self._running is not None:
            raise CampaignBusy(f"The campaign {self._running[0]!r} is running. Pause it first.")
        if self._is_locked():
            raise CampaignBusy("A command runs a campaign. Wait until it ends.")

    def _is_locked(self) -> bool:
        lock = self._folder / "lock"
        return lock.exists() and is_locked(lock)

    def _head(self, campaign: str) -> Json:
        head = self._folder / "campaigns" / campaign / "campaign.json"
        found = object_in(head) if re.fullmatch(ID, campaign) else None
        if found is None:
            raise UnknownCampaign(f"There is no campaign {campaign!r}, or its file is damaged.")
        return found


def _has_ended(folder: Path) -> bool:
    if (folder / "result.json").exists():
        return True
    gate = object_in(folder / "gate.json")
    return gate is not None and gate.get("decision") in ENDED


async def _answer(child: Child) -> Json:
    """Return what a worker writes at its end; `{}` when it was killed. Raises `CampaignRefused`."""
    assert child.process.stdout is not None
    output = await child.process.stdout.read()
    ended_with = await child.wait()
    if (child.process.returncode or 0) < 0:
        return {}
    try:
        answer: Json = json.loads(output)
    except ValueError as error:
        raise CampaignRefused(
            f"The campaign's process ended with {ended_with}; see the log."
        ) from error
    if "error" in answer:
        raise CampaignRefused(str(answer["error"]))
    return answer
