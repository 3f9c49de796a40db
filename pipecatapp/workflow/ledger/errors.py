"""What can be wrong with a ledger."""


class LedgerError(Exception):
    """Something about the ledger. See the kinds below."""


class LedgerTooNew(LedgerError):
    """A newer Hearth wrote this ledger. Start that version, or choose another state directory."""


class LedgerBusy(LedgerError):
    """Another process executes runs in this ledger. Stop it, or speak to it over HTTP."""


class NotImported(LedgerError):
    """The lines are no exported runs, or a run of them is here already. Nothing was imported."""


class LedgerFailed(LedgerError):
    """The ledger could not be read or written.

    Make room or mend the file; unfinished runs resume at the next start.
    """
