"""Failed runs of a home: what failed, which prompt was used, and a case of each."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from pipecatapp.client import segment
from prompt_engineering.campaign import CampaignError
from prompt_engineering.cases import Case, Check, fingerprint_of
from prompt_engineering.evaluation import CALLER, AppClient

RECENT: Final = 50
"""Failed runs that are looked at."""
_VARYING: Final = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"|\b01[0-9A-Z]{24}\b")


class Failure(BaseModel):
    """One failed run. `prompt` is the stored prompt that its last model call used, if any."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str
    workflow: str
    inputs: dict[str, Any]
    error: str
    prompt: str | None = None

    @property
    def fingerprint(self) -> str:
        """Equal for failures of one workflow whose messages differ in names and numbers only."""
        return fingerprint_of(self.workflow, _VARYING.sub("…", self.error))

    def case(self, checks: Sequence[Check] = ()) -> Case:
        """Return the case that this run was: by default it only has to end as done."""
        return Case(
            id=f"failure-{self.run.lower()}",
            workflow=self.workflow,
            inputs=self.inputs,
            checks=tuple(checks) or (Check(ends="done"),),
            fingerprint=self.fingerprint,
            about=self.error[:200],
        )


async def failure_of(client: AppClient, run: str, *, rejected: str = "") -> Failure:
    """Read a failed run, or one that is done but whose answer a person rejects with a reason.

    Raises `CampaignError` for a run that did not fail, or that no stored workflow can repeat, and
    `RequestFailed` for an unknown one.
    """
    found = await client.request("GET", f"/api/runs/{segment(run)}")
    if found["status"] != "failed" and not (found["status"] == "done" and rejected):
        raise CampaignError(f"The run {run} is {found['status']}, not failed.")
    prompts = (await client.request("GET", "/api/prompts"))["prompts"]
    return Failure(
        run=found["id"],
        workflow=found["workflow"],
        inputs=found["inputs"],
        error=rejected or found["error"] or "",
        prompt=prompt_of(found["steps"], prompts),
    )


async def recent_failures(client: AppClient) -> list[Failure]:
    """Return the newest failure of each kind, the newest first.

    Cancelled runs are no failures: a person or a stop ended them. Measured runs of campaigns are
    none either.
    """
    query = {"status": "failed", "limit": RECENT}
    runs = (await client.request("GET", "/api/runs", params=query))["runs"]
    known = {one["id"] for one in (await client.request("GET", "/api/workflows"))["workflows"]}
    found: dict[str, Failure] = {}
    for run in runs:
        if run["caller"] == CALLER or run["workflow"] not in known:
            continue
        failure = await failure_of(client, run["id"])
        found.setdefault(failure.fingerprint, failure)
    return list(found.values())


def prompt_of(
    steps: Sequence[Mapping[str, Any]], prompts: Sequence[Mapping[str, Any]]
) -> str | None:
    """Return the id of the longest stored prompt in the system message of the last model call."""
    for step in reversed(steps):
        messages = step["prompt"]
        if not isinstance(messages, list) or not messages or messages[0].get("role") != "system":
            continue
        system = str(messages[0].get("content"))
        used = [one for one in prompts if one["text"].strip() in system]
        if used:
            return str(max(used, key=lambda one: len(one["text"]))["id"])
    return None
