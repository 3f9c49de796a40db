"""Server-sent events, as OpenAI's clients read them."""

import json
from typing import Any, Final

EVENTS: Final = "text/event-stream"


def event(message: dict[str, Any]) -> str:
    """One event with a JSON object."""
    return f"data: {json.dumps(message, ensure_ascii=False)}\n\n"
