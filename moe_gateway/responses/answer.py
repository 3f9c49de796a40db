"""The answer of `/v1/responses`: the object that is told, and its events while it grows."""

import time
from secrets import token_hex
from typing import Any, Final

import orjson

Json = dict[str, Any]

ECHOED: Final[Json] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "user": None,
}
"""What an answer says of its request, with OpenAI's defaults."""

CUT_SHORT: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why a chat ended early -> why a response is incomplete."""


class Response:
    """One response: `whole` of a completed chat, or `frame` while it grows."""

    def __init__(self, asked: Json) -> None:
        self.id, self.created = f"resp_{token_hex(16)}", int(time.time())
        self._echo = {
            name: default if asked.get(name) is None else asked[name]
            for name, default in ECHOED.items()
        }
        self.model = str(asked["model"])

    def frame(self, status: str, output: list[Json], **fields: Any) -> Json:
        """The object with this output; `status` is in_progress, completed, incomplete or failed."""
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            "previous_response_id": None,
            "store": False,
            "truncation": "disabled",
            **self._echo,
            "output": output,
            "usage": None,
            **fields,
        }

    def ended(self, finish: str | None, output: list[Json], usage: Any) -> Json:
        """The object at its end; `finish` is the reason that the chat gave."""
        cut = CUT_SHORT.get(finish or "")
        return self.frame(
            "incomplete" if cut else "completed",
            output,
            usage=usage_of(usage),
            incomplete_details={"reason": cut} if cut else None,
        )

    def whole(self, completion: Json) -> Json:
        """The object of a whole chat completion."""
        self.model = str(completion.get("model") or self.model)
        choices = completion.get("choices") or [{}]
        finish, message = choices[0].get("finish_reason"), choices[0].get("message") or {}
        output: list[Json] = []
        if thought := message.get("reasoning_content") or message.get("reasoning"):
            output.append(reasoning_item(f"rs_{token_hex(12)}", thought))
        logprobs = (choices[0].get("logprobs") or {}).get("content") or []
        parts = [text_part(message["content"], logprobs)] if message.get("content") else []
        if message.get("refusal"):
            parts.append(refusal_part(message["refusal"]))
        calls = message.get("tool_calls") or []
        if parts or not calls:
            status = "incomplete" if CUT_SHORT.get(finish or "") else "completed"
            parts = parts or [text_part("")]
            output.append(message_item(f"msg_{token_hex(12)}", parts, status))
        output += [call_item(f"fc_{token_hex(12)}", call) for call in calls]
        return self.ended(finish, output, completion.get("usage"))


def message_item(name: str, parts: list[Json], status: str = "completed") -> Json:
    return {"id": name, "type": "message", "role": "assistant", "status": status, "content": parts}


def reasoning_item(name: str, text: str) -> Json:
    content = [{"type": "reasoning_text", "text": text}]
    return {
        "id": name,
        "type": "reasoning",
        "status": "completed",
        "summary": [],
        "content": content,
    }


def call_item(name: str, call: Json, status: str = "completed") -> Json:
    function = call.get("function") or {}
    return {
        "id": name,
        "type": "function_call",
        "status": status,
        "call_id": call.get("id") or name,
        "name": function.get("name") or "",
        "arguments": function.get("arguments") or "",
    }


def text_part(text: str, logprobs: list[Json] | None = None) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs or []}


def refusal_part(text: str) -> Json:
    return {"type": "refusal", "refusal": text}


def usage_of(usage: Any) -> Json | None:
    """OpenAI's counts under the names of this API."""
    if not isinstance(usage, dict) or "prompt_tokens" not in usage:
        return None
    read, written = usage["prompt_tokens"], usage.get("completion_tokens", 0)
    reused = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens", 0)
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": reused, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": read + written,
    }


def encoded(event: Json) -> bytes:
    """One event of the stream."""
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), orjson.dumps(event))
