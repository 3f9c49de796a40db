"""Show the archives of prompt campaigns; promote a proposed prompt and take it back.

The archives are files that `prompt_engineering` writes. A prompt of theirs becomes live only here,
and only when a person confirms it.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import BaseModel

from hearth.files import sync_folder, write_atomic
from pipecatapp.application.documents.files import load_prompt, stored_prompt
from pipecatapp.application.library.promotion_records import (
    ID,
    Promotion,
    PromptText,
    Proposal,
    promoted_folder,
    read_promotion,
    read_proposal,
)
from pipecatapp.application.runs import RunService
from pipecatapp.workflow import Prompt
from pipecatapp.workflow.storage import now

log = structlog.get_logger()

SHOWN_FILES: Final = ("campaign", "gate", "proposal")
"""Files of a campaign that are shown in addition to its candidates."""

REGRET: Final = ("prompt", "decision", "evidence")
"""Fields of a comparison that are shown."""


class UnknownCampaign(LookupError):
    """The campaign does not exist: see the list of campaigns."""


class UnknownProposal(LookupError):
    """The campaign proposes nothing."""


class UnknownPromotion(LookupError):
    """No promoted version of this prompt is live."""


class PromptPromoted(ValueError):
    """A promoted version of the prompt is live, so the stored one cannot change below it."""


class ProposalOutdated(ValueError):
    """The prompt is another one than the proposal was compared with."""


class CampaignList(BaseModel):
    """All campaigns, the newest first, and what is live.

    `regrets`: by prompt, how live runs with the promoted version compare with the one before.
    """

    campaigns: list[dict[str, Any]]
    promotions: list[Promotion]
    regrets: dict[str, dict[str, Any]] = {}


class CampaignArchive(BaseModel):
    """One campaign as its files hold it; `candidates` in the order in which they were made."""

    campaign: dict[str, Any]
    candidates: list[dict[str, Any]]
    gate: dict[str, Any] | None = None
    proposal: dict[str, Any] | None = None


class PromotionService:
    """The campaigns and promoted prompts of one state directory."""

    def __init__(self, runs: RunService, state: Path) -> None:
        self._engine, self._state = runs.engine, state

    def campaigns(self) -> CampaignList:
        """All campaigns and promotions; a file that is damaged is left out."""
        found = [one for one in map(object_in, self._campaigns.glob("*/campaign.json")) if one]
        found.sort(key=lambda one: str(one.get("created")), reverse=True)
        live = [read_promotion(file) for file in sorted(self._promoted.glob("[!.]*.json"))]
        regrets = {one.prompt: regret for one in live if (regret := self._regret(one))}
        return CampaignList(campaigns=found, promotions=live, regrets=regrets)

    def _regret(self, promotion: Promotion) -> dict[str, Any] | None:
        """Return the comparison of live runs; None without one for this very promotion."""
        found = object_in(self._state / "evolution" / "regret" / f"{promotion.prompt}.json")
        if found is None or not found.keys() >= {*REGRET}:
            return None
        same = (found.get("campaign"), found.get("at")) == (promotion.campaign, promotion.at)
        return {name: found[name] for name in REGRET} if same else None

    def archive(self, campaign: str) -> CampaignArchive:
        """Return one campaign with all of its candidates.

        Damaged candidates are left out. Raises `UnknownCampaign`, also if `campaign.json` is
        damaged.
        """
        folder = self._folder(campaign)
        shown = {name: object_in(folder / f"{name}.json") for name in SHOWN_FILES}
        if shown["campaign"] is None:
            raise UnknownCampaign(f"The file campaign.json of {campaign!r} is damaged.")
        files = sorted((folder / "candidates").glob("[!.]*.json"))
        candidates = [one for one in map(object_in, files) if one]
        return CampaignArchive.model_validate({**shown, "candidates": candidates})

    def promote(self, campaign: str, *, by: str) -> Promotion:
        """Make the proposed prompt of a campaign live, as a layer over the stored one.

        `by` is the person that confirms it. Raises `UnknownCampaign`, `UnknownProposal`,
        `InvalidDocument`, and `ProposalOutdated`.
        """
        proposal = self._proposal(campaign)
        current = self._engine.prompts.get(proposal.prompt)
        if current is None or _text_of(current) != proposal.base:
            raise ProposalOutdated(
                f"The prompt {proposal.prompt!r} has changed since the campaign {campaign!r}."
                " Run a new campaign."
            )
        prompt = load_prompt(proposal.document, file=f"{proposal.prompt}.md")
        file = self._file(proposal.prompt)
        below = read_promotion(file) if file.exists() else None
        promotion = Promotion(**dict(proposal), by=by, at=now(), below=below)
        write_atomic(file, promotion.model_dump_json(indent=2) + "\n")
        self._use({**self._engine.prompts, prompt.id: prompt})
        return promotion

    def roll_back(self, prompt: str) -> None:
        """Remove the promoted version of a prompt; what it was promoted over is live again.

        Raises `UnknownPromotion`.
        """
        file = self._file(prompt)
        if not file.exists():
            raise UnknownPromotion(f"No promoted version of the prompt {prompt!r} is live.")
        below = read_promotion(file).below
        if below is None:
            live = stored_prompt(self._state, prompt)
            file.unlink()
            sync_folder(file.parent)
        else:
            live = {prompt: load_prompt(below.document, file=f"{prompt}.md")}
            write_atomic(file, below.model_dump_json(indent=2) + "\n")
        left = {id: one for id, one in self._engine.prompts.items() if id != prompt}
        self._use(left | live)

    @property
    def _campaigns(self) -> Path:
        return self._state / "evolution" / "campaigns"

    @property
    def _promoted(self) -> Path:
        return promoted_folder(self._state)

    def _file(self, prompt: str) -> Path:
        return self._promoted / f"{prompt}.json"

    def _folder(self, campaign: str) -> Path:
        folder = self._campaigns / campaign
        if not re.fullmatch(ID, campaign) or not (folder / "campaign.json").exists():
            raise UnknownCampaign(f"There is no campaign {campaign!r}.")
        return folder

    def _proposal(self, campaign: str) -> Proposal:
        file = self._folder(campaign) / "proposal.json"
        if not file.exists():
            raise UnknownProposal(f"The campaign {campaign!r} proposes nothing.")
        return read_proposal(file)

    def _use(self, prompts: dict[str, Prompt]) -> None:
        self._engine.tell(prompts.values(), self._engine.projects.values())


def check_not_promoted(state: Path, prompt: str) -> None:
    """Raise `PromptPromoted` while a promoted version of a prompt is live."""
    if (promoted_folder(state) / f"{prompt}.json").exists():
        raise PromptPromoted(
            f"A promoted version of the prompt {prompt!r} is live. Roll it back first."
        )


def _text_of(prompt: Prompt) -> PromptText:
    return PromptText(tags=sorted(prompt.tags), text=prompt.text)


def object_in(file: Path) -> dict[str, Any] | None:
    """Return the object in a file; None for a missing or, with a warning, a damaged one."""
    try:
        value = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        log.warning("campaign_file_damaged", path=str(file), reason=str(error))
        return None
    return value if isinstance(value, dict) else None
