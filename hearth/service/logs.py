"""Logs: one event with its keys per line, on standard error, never a secret or a prompt."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

SECRET_WORDS = ("key", "secret", "token", "password", "authorization", "cookie")
COUNTS = ("tokens", "key_file", "key_name", "prompt_tokens", "completion_tokens")


def configure_logs(service: str, *, level: str = "info") -> None:
    """Send structlog and the standard library's loggers to standard error in one format."""
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(stream=sys.stderr, level=number, format="%(message)s", force=True)
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            hide_secrets,
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(
                key_order=["timestamp", "level", "event"], drop_missing=True, bool_as_flag=False
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(service=service)


def hide_secrets(
    logger: Any, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace the value of every log key whose name speaks of a secret."""
    for name in event:
        if name not in COUNTS and any(word in name.lower() for word in SECRET_WORDS):
            event[name] = "***"
    return event
