"""The errors of the application: for each its HTTP status, its code and a command's exit code.

This is the only such table. HTTP answers with status and code, and a command turns the code of an
answer into its exit code, so a command ends alike with and without a running instance.
"""

from dataclasses import dataclass
from typing import Final

from hearth.models.errors import ModelError, ModelInUse, ModelMissing, UnknownModel
from hearth.service.settings import SettingsError
from pipecatapp.application.bundles.archive import InvalidBundle
from pipecatapp.application.bundles.service import NotTrusted, NotUsable, UnknownDocument
from pipecatapp.application.bundles.signing import WrongSignature
from pipecatapp.application.code_memory import UnknownFile
from pipecatapp.application.conversations import UnknownConversation, UnknownTurn
from pipecatapp.application.documents.drafts import DraftExists
from pipecatapp.application.documents.editing import DocumentChanged, NotEdited, UnknownLayer
from pipecatapp.application.documents.history import NothingToUndo
from pipecatapp.application.engine import (
    DiskFull,
    InvalidDocument,
    InvalidInputs,
    LedgerBusy,
    LedgerFailed,
    LedgerTooNew,
    NotAsked,
    NotGranted,
    NotImported,
    NoTodo,
    NotStruck,
    UnknownRun,
    UnknownStep,
    UnknownWorkflow,
    WrongAnswer,
)
from pipecatapp.application.exit_codes import ExitCode
from pipecatapp.application.fixes import FixesNotImported, UnknownFix
from pipecatapp.application.home import AlreadyJoined, HomeProblem, NotJoined
from pipecatapp.application.knowledge import (
    IndexDamaged,
    SourceExists,
    SourceRefused,
    UnknownPassage,
    UnknownSource,
)
from pipecatapp.application.library.campaigns import CampaignBusy, CampaignRefused
from pipecatapp.application.library.promotions import (
    PromptPromoted,
    ProposalOutdated,
    UnknownCampaign,
    UnknownPromotion,
    UnknownProposal,
)
from pipecatapp.application.library.service import UnknownProject, UnknownPrompt
from pipecatapp.application.models import NotManaged, PullUnderWay
from pipecatapp.application.retention import RunUnfinished
from pipecatapp.application.run_files import FileTooLarge, UnknownRunFile
from pipecatapp.application.schedules.starting import NotStarted
from pipecatapp.application.schedules.store import ScheduleKept, UnknownSchedule
from pipecatapp.application.schedules.timing import WrongTiming
from pipecatapp.application.secrets import SecretMissing
from pipecatapp.application.status import GatewayAway
from pipecatapp.application.tool_runs import UnknownTool
from pipecatapp.application.triggers.definition import InvalidTrigger, UnknownTrigger
from pipecatapp.application.triggers.service import TooManyDeliveries, WrongDelivery
from pipecatapp.application.triggers.signatures import NotSigned
from pipecatapp.records.tasks import UnknownTask
from pipecatapp.workspace import NotStored, NotUploaded

FAILED, INVALID = ExitCode.FAILED, ExitCode.INVALID


@dataclass(frozen=True)
class ErrorCode:
    """The response to an error; `param` is the field of the request that caused it."""

    status: int
    code: str
    exit_code: ExitCode
    param: str | None = None


ERRORS: Final[dict[type[Exception], ErrorCode]] = {
    InvalidDocument: ErrorCode(422, "invalid_document", INVALID, "document"),
    UnknownWorkflow: ErrorCode(404, "workflow_not_found", INVALID, "workflow"),
    UnknownTool: ErrorCode(404, "tool_not_found", INVALID, "tool"),
    UnknownLayer: ErrorCode(404, "layer_not_found", INVALID, "layer"),
    DocumentChanged: ErrorCode(412, "document_changed", FAILED, "document"),
    NotEdited: ErrorCode(422, "not_edited", INVALID, "operations"),
    DraftExists: ErrorCode(409, "draft_exists", INVALID, "name"),
    NothingToUndo: ErrorCode(409, "nothing_to_undo", FAILED),
    NotGranted: ErrorCode(403, "not_granted", INVALID, "allow"),
    UnknownConversation: ErrorCode(404, "conversation_not_found", FAILED, "conversation"),
    UnknownTurn: ErrorCode(404, "turn_not_found", FAILED, "run"),
    UnknownRun: ErrorCode(404, "run_not_found", FAILED, "run"),
    RunUnfinished: ErrorCode(409, "run_unfinished", FAILED, "run"),
    UnknownStep: ErrorCode(404, "step_not_found", FAILED, "at"),
    InvalidInputs: ErrorCode(422, "invalid_inputs", INVALID, "inputs"),
    NotAsked: ErrorCode(409, "not_asked", FAILED, "path"),
    NotStruck: ErrorCode(409, "not_struck", FAILED, "strike"),
    NoTodo: ErrorCode(409, "no_todo", FAILED, "add"),
    WrongAnswer: ErrorCode(422, "wrong_answer", INVALID, "value"),
    NotImported: ErrorCode(422, "not_imported", INVALID),
    InvalidBundle: ErrorCode(422, "invalid_bundle", INVALID),
    WrongSignature: ErrorCode(422, "wrong_signature", INVALID),
    NotTrusted: ErrorCode(403, "not_trusted", FAILED, "trust"),
    NotUsable: ErrorCode(422, "not_usable", INVALID),
    UnknownDocument: ErrorCode(404, "document_not_found", FAILED, "document"),
    NotUploaded: ErrorCode(422, "not_uploaded", INVALID, "files"),
    NotStored: ErrorCode(503, "not_stored", FAILED),
    UnknownRunFile: ErrorCode(404, "file_not_found", FAILED, "path"),
    FileTooLarge: ErrorCode(413, "file_too_large", FAILED, "path"),
    UnknownFile: ErrorCode(404, "file_not_found", FAILED, "path"),
    UnknownFix: ErrorCode(404, "fix_not_found", FAILED, "id"),
    FixesNotImported: ErrorCode(422, "fixes_not_imported", INVALID),
    UnknownSource: ErrorCode(404, "source_not_found", FAILED, "name"),
    UnknownPassage: ErrorCode(404, "passage_not_found", FAILED, "passage"),
    SourceExists: ErrorCode(409, "source_exists", FAILED, "name"),
    SourceRefused: ErrorCode(422, "source_refused", INVALID, "paths"),
    IndexDamaged: ErrorCode(500, "knowledge_damaged", FAILED),
    LedgerBusy: ErrorCode(503, "ledger_busy", FAILED),
    LedgerTooNew: ErrorCode(503, "ledger_too_new", FAILED),
    LedgerFailed: ErrorCode(503, "ledger_failed", FAILED),
    DiskFull: ErrorCode(503, "disk_full", FAILED),
    UnknownPrompt: ErrorCode(404, "prompt_not_found", FAILED, "id"),
    UnknownCampaign: ErrorCode(404, "campaign_not_found", FAILED, "id"),
    CampaignRefused: ErrorCode(422, "campaign_refused", INVALID),
    CampaignBusy: ErrorCode(409, "campaign_busy", FAILED, "id"),
    UnknownProposal: ErrorCode(404, "proposal_not_found", FAILED, "id"),
    UnknownPromotion: ErrorCode(404, "promotion_not_found", FAILED, "id"),
    PromptPromoted: ErrorCode(409, "prompt_promoted", FAILED, "id"),
    ProposalOutdated: ErrorCode(409, "proposal_outdated", FAILED, "id"),
    UnknownProject: ErrorCode(404, "project_not_found", FAILED, "id"),
    UnknownTask: ErrorCode(404, "task_not_found", FAILED, "id"),
    UnknownSchedule: ErrorCode(404, "schedule_not_found", FAILED, "id"),
    ScheduleKept: ErrorCode(409, "schedule_kept", FAILED, "id"),
    NotStarted: ErrorCode(422, "not_started", FAILED),
    WrongTiming: ErrorCode(422, "wrong_timing", INVALID),
    UnknownTrigger: ErrorCode(404, "trigger_not_found", FAILED, "id"),
    InvalidTrigger: ErrorCode(422, "invalid_trigger", INVALID),
    NotSigned: ErrorCode(401, "not_signed", FAILED),
    TooManyDeliveries: ErrorCode(429, "too_many_deliveries", FAILED),
    WrongDelivery: ErrorCode(400, "wrong_delivery", INVALID),
    SecretMissing: ErrorCode(422, "secret_missing", FAILED),
    AlreadyJoined: ErrorCode(409, "home_already_joined", FAILED),
    NotJoined: ErrorCode(404, "home_not_joined", FAILED),
    HomeProblem: ErrorCode(422, "home_problem", FAILED),
    GatewayAway: ErrorCode(502, "gateway_away", FAILED),
    UnknownModel: ErrorCode(404, "model_not_found", FAILED, "name"),
    ModelMissing: ErrorCode(409, "model_not_pulled", FAILED, "name"),
    ModelInUse: ErrorCode(409, "model_in_use", FAILED, "name"),
    ModelError: ErrorCode(500, "model_unusable", FAILED, "name"),
    PullUnderWay: ErrorCode(409, "pull_under_way", FAILED, "name"),
    NotManaged: ErrorCode(409, "not_managed_here", FAILED, "name"),
    SettingsError: ErrorCode(500, "settings_invalid", FAILED),
}

KNOWN: Final = tuple(ERRORS)
_EXIT_CODES: Final = {error.code: error.exit_code for error in ERRORS.values()}


def exit_code_of(error: Exception) -> ExitCode:
    """Return the exit code of an error that `KNOWN` contains, or of a subclass."""
    return next(ERRORS[kind].exit_code for kind in type(error).__mro__ if kind in ERRORS)


def exit_code_for(status: int, code: str | None) -> ExitCode:
    """Return the exit code for an HTTP answer; an invalid request of any other code is INVALID."""
    if code in _EXIT_CODES:
        return _EXIT_CODES[code]
    return INVALID if status in (400, 422) else FAILED
