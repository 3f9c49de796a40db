"""Convert errors of servers to OpenAI's errors.

llama-server reports some client errors as server errors (HTTP 500, and 501 for embeddings that its
model does not support). Passed on unchanged, official clients would retry each of them twice, and
three failures in a row would open the circuit for all callers.
"""

import re
from typing import Any, Final

import orjson

from hearth.openai_api.errors import message_of
from hearth.service.error_body import error_body, error_type

MISTAKES: Final = re.compile(
    r"^Failed to parse (messages|tools)|input is not supported|Jinja Exception: |json\.exception\."
)
"""How llama-server words what is wrong with a request, though it answers 500. The third one is a
model's own template, which may want user and assistant in turns."""

PLACES: Final = {
    r"[Ff]ield '(\w+)'": "",
    r"^'(\w+)' is required": "",
    r"^Failed to parse (\w+)": "",
    r"^Invalid (tool_choice)": "",
    r"^(response_format|top_logprobs) ": "",
    r"'messages'|'content'|content\[\]|input is not supported|Jinja Exception: ": "messages",
    r"JSON schema error": "response_format",
    r"parse grammar": "grammar",
    r"'prompt'|\"prompt\"|^Prompt ": "prompt",
    r"support (embeddings|reranking)": "model",
}
"""Words of an error, and the field that they are about; empty: the one that they name."""

HINTS: Final = {
    "image input": "Ask a model that /v1/models lists with the capability `vision`.",
    "support reranking": "Ask a model that /v1/models lists with the capability `rerank`.",
    "support embeddings": "Ask a model that /v1/models lists with the capability `embeddings`.",
}

TEMPLATE: Final = re.compile(r".*Jinja Exception: ", re.DOTALL)
CODES: Final = {
    "exceed_context_size_error": "context_length_exceeded",
    "invalid_request_error": None,
    "authentication_error": None,
    "not_found_error": None,
    "permission_error": None,
    "not_supported_error": None,
    "unavailable_error": None,
}
"""The error types of llama-server (`format_error_response` of its server), and OpenAI's code for
each; the type itself becomes OpenAI's for the status."""

NO_MEDIA: Final = "input is not supported"
"""A model of text was sent an image or sound."""

OF_THE_PARSER: Final = re.compile(r"\[json\.exception\.[\w.]+\] ")


def relayed(status: int, data: bytes) -> tuple[int, bytes]:
    """A server's error as the caller gets it: its status and, in OpenAI's shape, its own words and
    fields.

    llama-server puts the status into `code`, where clients expect a word or nothing.
    """
    try:
        body: Any = orjson.loads(data)
    except orjson.JSONDecodeError:
        body = data.decode("utf-8", "replace")[:1000]
    inner = body.get("error") if isinstance(body, dict) else None
    words = message_of(body) or f"HTTP {status}"
    mistaken = status == 501 or (status == 500 and MISTAKES.search(words) is not None)
    status = 400 if mistaken else status
    error = error_body("", type=error_type(status))["error"]
    if isinstance(inner, dict):
        error |= inner
        error["code"] = "invalid_value" if NO_MEDIA in words else _code(inner)
    if mistaken or error["type"] in CODES:
        error["type"] = error_type(status)
    error["message"] = _plain(words)
    if status < 500 and error["param"] is None:
        error["param"] = _param(words)
    return status, orjson.dumps({"error": error})


def _code(error: dict[str, Any]) -> str | None:
    code = CODES.get(str(error.get("type")))
    if code is None and isinstance(error.get("code"), str):
        code = error["code"]
    return code


def _plain(words: str) -> str:
    """Without where in a program it was found, and with what to do about it."""
    said = TEMPLATE.sub("The model's template refuses the conversation: ", words)
    hints = [hint for about, hint in HINTS.items() if about in words]
    return ". ".join((OF_THE_PARSER.sub("", said), *hints))


def _param(words: str) -> str | None:
    for place, param in PLACES.items():
        if found := re.search(place, words):
            return param or found.group(1)
    return None
