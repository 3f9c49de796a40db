"""The answers of Ollama's API: lines of a stream, whole answers, vectors and errors."""

import math
import time
from datetime import UTC, datetime
from typing import Any, Final

from moe_gateway.api.anthropic.answer import arguments_of
from moe_gateway.api.ollama.request import CHAT, EMBEDDINGS, Request

Json = dict[str, Any]

OWN_NAMES: Final = {"max_tokens": "options.num_predict", "response_format": "format"}
"""How a server calls these fields, and how the caller does."""


class Answer:
    """Makes the objects of one answer. `started_at` is the `time.perf_counter` of the request."""

    def __init__(self, request: Request, started_at: float) -> None:
        self.request, self._started_at = request, started_at
        self._first_at: float | None = None
        self._is_chat = request.path == CHAT

    def line(self, texts: Json, *, calls: list[Json] | None = None, logprobs: Any = None) -> Json:
        """Return one piece of the answer; `texts` may have `content` and `thinking`."""
        if self._first_at is None:
            self._first_at = time.perf_counter()
        return self._frame(texts, calls, logprobs) | {"done": False}

    def last(self, finish: Any, usage: Any, timings: Any, whole: Json | None = None) -> Json:
        """Return the line that ends the answer, with its counts; `whole` is the content where
        the answer is this one line."""
        content = whole or {}
        frame = self._frame(content.get("texts", {}), content.get("calls"), content.get("logprobs"))
        reason = "length" if finish == "length" else "stop"
        return frame | {"done": True, "done_reason": reason} | self._counts(usage, timings)

    def whole(self, completion: Json) -> Json:
        """Return the answer to a request without a stream."""
        choice = (completion.get("choices") or [{}])[0]
        message = choice.get("message") or {"content": choice.get("text")}
        content = {
            "texts": texts_of(message),
            "calls": [call_of(call) for call in message.get("tool_calls") or ()],
            "logprobs": (choice.get("logprobs") or {}).get("content"),
        }
        usage, timings = completion.get("usage"), completion.get("timings")
        return self.last(choice.get("finish_reason"), usage, timings, content)

    def vectors(self, answer: Json) -> Json:
        """Return the answer with the embeddings, normalised as Ollama's are."""
        data = sorted(answer.get("data") or (), key=lambda one: one.get("index", 0))
        found = [one.get("embedding") or [] for one in data]
        if self.request.path == EMBEDDINGS:
            return {"embedding": found[0] if found else []}
        size = self.request.dimensions
        usage = answer.get("usage") or {}
        return {
            "model": self.request.model,
            "embeddings": [_normal(vector[:size]) for vector in found],
            "total_duration": _nanoseconds(time.perf_counter() - self._started_at),
            "load_duration": 0,
            "prompt_eval_count": usage.get("prompt_tokens") or 0,
        }

    def _frame(self, texts: Json, calls: list[Json] | None, logprobs: Any) -> Json:
        frame: Json = {"model": self.request.model, "created_at": now()}
        content = texts.get("content") or ""
        more: Json = {"thinking": texts["thinking"]} if texts.get("thinking") else {}
        more |= {"tool_calls": calls} if calls else {}
        if self._is_chat:
            frame["message"] = {"role": "assistant", "content": content} | more
        else:
            frame |= {"response": content} | more
        return frame | ({"logprobs": logprobs} if logprobs else {})

    def _counts(self, usage: Any, timings: Any) -> Json:
        """Return tokens and nanoseconds. Without the server's own `timings`, the prompt ends with
        the first piece of a stream; of a whole answer, all the time is that of the answer."""
        counts = usage if isinstance(usage, dict) else {}
        ended = time.perf_counter()
        first = self._started_at if self._first_at is None else self._first_at
        prompt, answer = first - self._started_at, ended - first
        if isinstance(timings, dict) and "predicted_ms" in timings:
            prompt, answer = timings.get("prompt_ms", 0) / 1000, timings["predicted_ms"] / 1000
        total = ended - self._started_at
        return {
            "total_duration": _nanoseconds(total),
            "load_duration": _nanoseconds(max(0.0, total - prompt - answer)),
            "prompt_eval_count": counts.get("prompt_tokens") or 0,
            "prompt_eval_duration": _nanoseconds(prompt),
            "eval_count": counts.get("completion_tokens") or 0,
            "eval_duration": _nanoseconds(answer),
        }


def texts_of(message: Json) -> Json:
    """Return the text and the reasoning of a message or a delta."""
    thinking = message.get("reasoning_content") or message.get("reasoning") or ""
    return {"content": message.get("content") or message.get("refusal") or "", "thinking": thinking}


def call_of(call: Json) -> Json:
    """Return one call of a tool; its arguments are an object."""
    function = call.get("function") or {}
    arguments = arguments_of(function.get("arguments") or "")
    written = {"name": function.get("name") or "", "arguments": arguments}
    return {"id": call.get("id") or "", "function": written}


def now() -> str:
    """Return the time as RFC 3339 writes it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def error_of(error: Json) -> Json:
    """Convert an error body of OpenAI's form; the name of a field becomes part of the text,
    because there is no other place for it."""
    message, param = str(error.get("message") or "the request failed"), error.get("param")
    name = OWN_NAMES.get(str(param), param)
    if name and str(name) not in message:
        message = f"{name}: {message}"
    return {"error": message}


def _normal(vector: list[float]) -> list[float]:
    """Scale a vector to length 1."""
    length = math.sqrt(math.fsum(value * value for value in vector))
    return [value / length for value in vector] if length else vector


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
