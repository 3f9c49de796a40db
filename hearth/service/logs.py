"""Structured logs: one event with its keys per line, on standard error, without secrets."""

import asyncio
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import Any

import structlog
from structlog.typing import Processor

SECRET_WORDS = ("key", "secret", "token", "password", "authorization", "cookie")
COUNTS = ("tokens", "key_file", "key_name", "prompt_tokens", "completion_tokens")

_BREAKS = {n: f"\\x{n:02x}" for n in (*range(32), *range(127, 160))} | {
    0x2028: "\\u2028", 0x2029: "\\u2029",
}  # fmt: skip
"""Characters that end a line or control the terminal, with their escaped forms."""

log = structlog.get_logger()


def configure_logs(service: str, *, level: str = "info") -> None:
    """Log everything to standard error in one format.

    That includes structlog, the standard library's loggers, warnings and unhandled exceptions. A
    traceback is a key of its event.
    """
    number = logging.getLevelNamesMapping()[level.upper()]

    def name_service(
        logger: Any, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        event["service"] = service
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        name_service,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        hide_secrets,
        structlog.processors.format_exc_info,
    ]
    last: list[Processor] = [
        structlog.processors.LogfmtRenderer(
            key_order=["timestamp", "level", "event"], drop_missing=True, bool_as_flag=False
        ),
        on_one_line,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(handlers=[handler], level=number, force=True)
    logging.captureWarnings(capture=True)
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    _log_unhandled()


async def lasting(work: Callable[[], Awaitable[None]], *, pause: float = 10.0) -> None:
    """Run a background task until cancelled.

    If it fails, the error is logged and the task is started again after `pause` seconds.
    """
    while True:
        try:
            await work()
        except Exception:
            log.exception("work_broke", work=getattr(work, "__qualname__", repr(work)))
        await asyncio.sleep(pause)


def hide_secrets(
    logger: Any, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace the value of every log key whose name contains one of `SECRET_WORDS`."""
    for name in event:
        if name not in COUNTS and any(word in name.lower() for word in SECRET_WORDS):
            event[name] = "***"
    return event


def on_one_line(logger: Any, method: str, line: Any) -> str:
    """Escape characters that would end the line or control the terminal."""
    return str(line).translate(_BREAKS)


def _log_unhandled() -> None:
    """Log unhandled exceptions, unless the command line or pytest has installed its own hook."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _process_ended
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _thread_ended


def _process_ended(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        log.critical("process_broke", exc_info=error)


def _thread_ended(ended: threading.ExceptHookArgs) -> None:
    if not issubclass(ended.exc_type, SystemExit):
        name = None if ended.thread is None else ended.thread.name
        log.error("thread_broke", thread=name, exc_info=ended.exc_value)
