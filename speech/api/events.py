"""Server-sent events, as OpenAI's clients read them."""

import json
from typing import Any, Final

import structlog

from hearth.openai_api.errors import error_body
from speech.api.answers import error_type
from speech.errors import SpeechError

log = structlog.get_logger()

EVENTS: Final = "text/event-stream"


def event(message: dict[str, Any]) -> str:
    """One event with a JSON object."""
    return f"data: {json.dumps(message, ensure_ascii=False)}\n\n"


def failure(error: SpeechError) -> str:
    """The last event of an answer that breaks off: clients take a stream that merely ends for a
    whole one."""
    log.error("speech_failed", code=error.code, reason=str(error))
    return event(error_body(str(error), type=error_type(error.status), code=error.code))
