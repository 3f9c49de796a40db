"""The answer of `/v1/messages`: the message, its usage, and errors in Anthropic's form."""

from secrets import token_hex
from typing import Any, Final

from hearth.openai_api.reading import read_json
from moe_gateway.api.anthropic.request import Request

Json = dict[str, Any]

STOP_REASONS: Final = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
"""Finish reason of a chat -> stop reason of a message; `end_turn` for all others. A chat does
not report whether a stop sequence ended it."""

ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""https://docs.claude.com/en/api/errors; below 500 `invalid_request_error` for others, else
`api_error`."""


class Message:
    """One message: `whole` of a completed chat, or `frame` while it grows."""

    def __init__(self, request: Request) -> None:
        self.id, self.model = f"msg_{token_hex(12)}", request.model

    def frame(self, content: list[Json], stop: str | None, usage: Any) -> Json:
        """The object with this content; `stop` is why it ended, None while it grows."""
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "stop_details": None,
            "container": None,
            "usage": usage_of(usage)
            | {"cache_creation": None, "inference_geo": None, "service_tier": "standard"},
        }

    def whole(self, completion: Json) -> Json:
        """The object of a whole chat completion."""
        self.model = str(completion.get("model") or self.model)
        choices = completion.get("choices") or [{}]
        message = choices[0].get("message") or {}
        content: list[Json] = []
        if thought := message.get("reasoning_content") or message.get("reasoning"):
            content.append(thinking_block(thought))
        calls = message.get("tool_calls") or []
        text = message.get("content") or message.get("refusal") or ""
        if text or not calls:
            content.append(text_block(text))
        content += [tool_block(call) for call in calls]
        stop = stop_reason(choices[0].get("finish_reason"))
        return self.frame(content, stop, completion.get("usage"))


def text_block(text: str) -> Json:
    return {"type": "text", "text": text, "citations": None}


def thinking_block(text: str) -> Json:
    """Return a block without a signature: reasoning of a model here is accepted unchanged."""
    return {"type": "thinking", "thinking": text, "signature": ""}


def tool_block(call: Json) -> Json:
    function = call.get("function") or {}
    return {
        "type": "tool_use",
        "id": call.get("id") or f"toolu_{token_hex(12)}",
        "name": function.get("name") or "",
        "input": arguments_of(function.get("arguments") or ""),
        "caller": {"type": "direct"},
    }


def arguments_of(text: str) -> Json:
    """The arguments of a call. Of an answer that was cut short they may be no JSON: the client gets
    the text, so nothing looks like a call without arguments."""
    try:
        found = read_json(text) if text.strip() else {}
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"invalid_json": text}


def stop_reason(finish: Any) -> str:
    """Why a message ended."""
    return STOP_REASONS.get(str(finish), "end_turn")


def usage_of(usage: Any) -> Json:
    """Convert token counts to the names of this API, in which input tokens exclude cached ones."""
    counts = usage if isinstance(usage, dict) else {}
    cached = (counts.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    thought = (counts.get("completion_tokens_details") or {}).get("reasoning_tokens")
    return {
        "input_tokens": max(0, (counts.get("prompt_tokens") or 0) - cached),
        "output_tokens": counts.get("completion_tokens") or 0,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "server_tool_use": None,
        "output_tokens_details": None if thought is None else {"thinking_tokens": thought},
    }


def error_of(error: Json, status: int, request_id: str) -> Json:
    """Convert an error body of OpenAI's form; the name of a field becomes part of the message."""
    kind = ERROR_TYPES.get(status) or ("api_error" if status >= 500 else ERROR_TYPES[400])
    message, param = str(error.get("message") or ""), error.get("param")
    if param and str(param) not in message:
        message = f"{param}: {message}"
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": request_id,
    }
