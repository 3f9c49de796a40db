"""Server-sent events, as OpenAI's clients read them."""

import json
from typing import Any, Final

from speech.api.answers import refusal_of
from speech.errors import SpeechError

EVENTS: Final = "text/event-stream"


def event(message: dict[str, Any]) -> str:
    """One event with a JSON object."""
    return f"data: {json.dumps(message, ensure_ascii=False)}\n\n"


def failure(error: SpeechError) -> str:
    """The last event of an answer that breaks off: clients take a stream that merely ends for a
    whole one."""
    return event(refusal_of(error).body())
