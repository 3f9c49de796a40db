"""Failures with their positions, and whether a document may handle them."""

import traceback
from collections.abc import Iterator

import structlog

from pipecatapp.workflow.ledger.errors import LedgerFailed
from pipecatapp.workflow.tool import Facts, ToolFailed

_log = structlog.get_logger()


CUT_SHORT = "interrupted; its effects until then remain"
"""The error of an instance that ended because its run, or its scope, ended."""


class RunStopped(Exception):
    """The run cannot continue; `path` is the position. Unlike `ToolFailed`, models never see it."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(reason)


class TryAgain(Exception):
    """A call failed and may be made again."""

    def __init__(self, reason: str, facts: Facts) -> None:
        self.facts = facts
        super().__init__(reason)


def holds(outer: str, path: str) -> bool:
    """Return whether an instance is `outer` or is inside it; the run contains everything."""
    return not outer or path == outer or path.startswith((f"{outer}/", f"{outer}["))


def reason_of(error: BaseException) -> str:
    """Why something failed, for the person who reads the run."""
    first = next(_leaves(error))
    if isinstance(first, ToolFailed | RunStopped | LedgerFailed):
        return str(first)
    return f"the tool broke: {type(first).__name__}: {first}"


def place_of(error: BaseException, path: str) -> str:
    """Return the position of an error: the inner instance that it names, or its origin."""
    first = next(_leaves(error))
    return first.path if isinstance(first, RunStopped) else path


def is_final(error: BaseException) -> bool:
    """Return whether no document may handle this failure: the run cannot or must not continue."""
    return isinstance(next(_leaves(error)), RunStopped | LedgerFailed)


def log_bug(error: BaseException, path: str) -> None:
    """Log an exception of a tool without its message, which may contain private text."""
    first = next(_leaves(error))
    if not isinstance(first, ToolFailed | RunStopped | LedgerFailed):
        frames = traceback.format_tb(first.__traceback__)
        _log.error("tool_broke", path=path, error=type(first).__name__, at="".join(frames))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
