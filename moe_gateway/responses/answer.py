"""The response object of `/v1/responses`, and its events while it is streamed."""

import time
from secrets import token_hex
from typing import Any, Final

from moe_gateway.responses.items import sealed
from moe_gateway.responses.request import Request

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
}
"""Fields of a response that repeat the request, with OpenAI's defaults."""

ECHOED_IF_SENT: Final = ("prompt_cache_key", "safety_identifier", "top_logprobs", "user")
"""The same for fields that OpenAI's document does not let be null."""

CUT_SHORT: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why a chat ended early -> why a response is incomplete."""


class Response:
    """One response: `whole` of a completed chat, or `frame` while it grows."""

    def __init__(self, request: Request, *, stored: bool) -> None:
        """`stored`: its caller may refer to it later."""
        self.id, self.created = f"resp_{token_hex(16)}", int(time.time())
        self.stored, self.seals_reasoning = stored, request.seals_reasoning
        fields = request.fields
        self._echo = {
            name: default if fields.get(name) is None else fields[name]
            for name, default in ECHOED.items()
        }
        self._echo |= {name: fields[name] for name in ECHOED_IF_SENT if fields.get(name)}
        self._echo["tools"] = request.tools
        self._echo["previous_response_id"] = fields.get("previous_response_id")
        self.model = str(fields["model"])

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
            "store": self.stored,
            "truncation": "disabled",
            **self._echo,
            "output": output,
            **fields,
        }

    def ended(self, finish: str | None, output: list[Json], usage: Any) -> Json:
        """Return the final object; `finish` is the finish reason of the chat."""
        cut, counts = CUT_SHORT.get(finish or ""), usage_of(usage)
        return self.frame(
            "incomplete" if cut else "completed",
            output,
            incomplete_details={"reason": cut} if cut else None,
            **({"usage": counts} if counts else {}),
        )

    def reasoning_item(self, name: str, text: str, status: str = "completed") -> Json:
        """Return the reasoning item; with `encrypted_content` if the client requested this
        field."""
        sealing = {"encrypted_content": sealed(text)} if self.seals_reasoning else {}
        content = [{"type": "reasoning_text", "text": text}]
        return {
            "id": name,
            "type": "reasoning",
            "status": status,
            "summary": [],
            "content": content,
            **sealing,
        }

    def whole(self, completion: Json) -> Json:
        """The object of a whole chat completion."""
        self.model = str(completion.get("model") or self.model)
        choices = completion.get("choices") or [{}]
        finish, message = choices[0].get("finish_reason"), choices[0].get("message") or {}
        output: list[Json] = []
        if thought := message.get("reasoning_content") or message.get("reasoning"):
            output.append(self.reasoning_item(f"rs_{token_hex(12)}", thought))
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
