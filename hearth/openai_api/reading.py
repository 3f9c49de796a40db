"""JSON that a model, or its server, has written."""

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """Parse JSON; raises `ValueError`.

    A model that splits an emoji writes half a character (a lone surrogate), which cannot be sent to
    anyone: it is replaced by a question mark.
    """
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("It is nested too deeply") from error
    if "\\u" not in (text if isinstance(text, str) else text.decode("utf-8", "replace")):
        return found
    return json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
