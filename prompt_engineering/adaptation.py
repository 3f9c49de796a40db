"""Adapt to a failure: a case file, a campaign on it, at most a proposal. Never a live prompt.

There is one adaptation per fingerprint. A campaign without a proposal is repeated after a pause
that doubles, and three times at most.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from hearth.files import write_atomic
from pipecatapp.client import Client
from prompt_engineering.archive import InvalidArchive
from prompt_engineering.campaign import CampaignError, Result
from prompt_engineering.cases import Case, Check, case_file, read_cases
from prompt_engineering.failures import Failure
from prompt_engineering.opening import Options, campaign_of, locked

FIRST_PAUSE: Final = timedelta(hours=1)
MOST_ATTEMPTS: Final = 3

State = Literal["running", "proposed", "nothing"]


class Adaptation(BaseModel):
    """What was tried for one kind of failure: the campaigns, and how the last one ended."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fingerprint: str
    workflow: str
    prompt: str
    campaigns: tuple[str, ...] = ()
    state: State = "running"
    last: str
    """When the last campaign began: ISO 8601, UTC."""

    def refusal(self, now: datetime) -> str | None:
        """Return why no further campaign begins now; None when one may begin, or go on."""
        if self.state == "running":
            return None
        if self.state == "proposed":
            return f"The campaign {self.campaigns[-1]} already proposes a prompt for it."
        if len(self.campaigns) >= MOST_ATTEMPTS:
            return f"{MOST_ATTEMPTS} campaigns found nothing. A person has to look at it."
        pause = FIRST_PAUSE * 2 ** (len(self.campaigns) - 1)
        again = datetime.fromisoformat(self.last) + pause
        return f"The next campaign may begin at {again.isoformat()}." if now < again else None


def read_adaptation(folder: Path, fingerprint: str) -> Adaptation | None:
    """Read what was tried for a kind of failure. Raises `InvalidArchive`."""
    file = _file(folder, fingerprint)
    if not file.exists():
        return None
    try:
        return Adaptation.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise InvalidArchive(f"{file} is not valid.") from error


async def adapt(
    client: Client,
    options: Options,
    failure: Failure,
    checks: Sequence[Check] = (),
    *,
    now: datetime | None = None,
) -> tuple[Adaptation, Result]:
    """Write the case of a failure and run a campaign that has to pass it.

    `options` says how the campaign is run; its prompt and test case follow from the failure. A
    campaign that was interrupted goes on. Raises `CampaignError` when no campaign may begin now, or
    when no stored prompt was used by the failed run, and what `campaign_of` raises.
    """
    now = now or datetime.now(UTC)
    if failure.prompt is None:
        raise CampaignError(f"The run {failure.run} used no stored prompt: nothing to adapt.")
    with locked(options.folder):
        before = read_adaptation(options.folder, failure.fingerprint)
        if before is not None and (refusal := before.refusal(now)):
            raise CampaignError(refusal)
        case = _stored(options.folder / "cases", failure.case(checks))
        if before is None or before.state != "running":
            before = _begun(before, failure, now)
            _write(options.folder, before)
        asked = options.adapting(failure.prompt, case, before.campaigns[-1])
        result = await (await campaign_of(client, asked)).run()
        state: State = "proposed" if result.decision == "promote" else "nothing"
        after = before.model_copy(update={"state": state})
        _write(options.folder, after)
    return after, result


def _stored(folder: Path, case: Case) -> str:
    """Write a case unless there is one with its inputs; return the id of the stored one."""
    known = read_cases([folder]) if folder.is_dir() else []
    for one in known:
        if (one.workflow, one.inputs) == (case.workflow, case.inputs):
            return one.id
    write_atomic(folder / f"{case.id}.yaml", case_file([case]))
    return case.id


def _begun(before: Adaptation | None, failure: Failure, now: datetime) -> Adaptation:
    tried = before.campaigns if before else ()
    return Adaptation(
        fingerprint=failure.fingerprint,
        workflow=failure.workflow,
        prompt=str(failure.prompt),
        campaigns=(*tried, f"adapt-{failure.fingerprint}-{len(tried) + 1}"),
        last=now.isoformat(timespec="seconds"),
    )


def _file(folder: Path, fingerprint: str) -> Path:
    return folder / "adaptations" / f"{fingerprint}.json"


def _write(folder: Path, adaptation: Adaptation) -> None:
    file = _file(folder, adaptation.fingerprint)
    write_atomic(file, adaptation.model_dump_json(indent=1) + "\n")
