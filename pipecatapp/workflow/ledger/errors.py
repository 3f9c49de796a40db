"""Errors of a ledger."""

from pathlib import Path


class LedgerError(Exception):
    """Something about the ledger. See the kinds below."""


class LedgerTooNew(LedgerError):
    """A newer Hearth wrote this ledger. Start that version, or choose another state directory."""


class LedgerBusy(LedgerError):
    """Another process executes runs in this ledger. Stop it, or speak to it over HTTP."""


class NotImported(LedgerError):
    """The lines are not exported runs, or one of the runs exists already. Nothing was imported."""


class LedgerFailed(LedgerError):
    """The ledger could not be read or written.

    Free disk space or repair the file; unfinished runs resume at the next start.
    """


class DiskFull(LedgerFailed):
    """The disk of the ledger is full, so no run can be started. Make room and try again."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"The disk of {path} is full, so no run can be started. Make room and try again."
        )


class LedgerDamaged(LedgerFailed):
    """The file of the ledger is damaged. Restore a backup with `hearth restore`."""

    def __init__(self, path: Path, reason: object) -> None:
        super().__init__(
            f"{path} is damaged: {reason}. Stop Hearth and run `hearth restore FILE` with a backup;"
            " the damaged state is moved to `backups/` first."
        )
