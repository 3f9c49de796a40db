"""Make the whole answer of a streamed one."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from hearth.openai_api.usage import Bill

_TEXTS: Final = ("content", "reasoning_content", "reasoning", "refusal", "text")
_WHOLE: Final = {"chat.completion.chunk": "chat.completion"}

Json = dict[str, Any]


class Assembler:
    """Assembles the chunks of a chat or a plain completion; unknown fields are kept.

    Texts, tool-call arguments, audio and lists are joined; of all other fields the last value that
    is not null is used. Fields that OpenAI's document requires are always present, even if null.
    """

    def __init__(self, shared: int = 1) -> None:
        """So many `shared` answers belong to one prompt, see `Bill`."""
        self._bill = Bill(shared)
        self._chunks = 0
        self._head: Json = {}
        self._choices: dict[int, Json] = {}

    def tokens(self) -> int:
        """Estimate the received tokens: servers send one per chunk, after a chunk with the role."""
        return self._chunks - 1

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take the decoded data of one event."""
        self._chunks += 1
        self._bill.add(chunk)
        for name, value in chunk.items():
            if name == "choices":
                for choice in value or ():
                    self._add_choice(choice)
            elif value is not None and not (name in ("id", "created") and name in self._head):
                self._head[name] = value

    def completion(self) -> Json:
        """The body that the same request would have got without streaming."""
        kind = self._head.get("object", "chat.completion.chunk")
        choices = [_finished(choice) for _, choice in sorted(self._choices.items())]
        whole = {**self._head, "object": _WHOLE.get(kind, kind), "choices": choices}
        return whole if self._bill.usage is None else {**whole, "usage": self._bill.usage}

    def _add_choice(self, piece: Json) -> None:
        index = piece.get("index", 0)
        empty = {"index": index, "finish_reason": None, "logprobs": None}
        choice = self._choices.setdefault(index, empty)
        for name, value in piece.items():
            if name == "delta":
                message = choice.setdefault("message", {"role": "assistant", "refusal": None})
                _add_delta(message, value or {})
            elif name == "logprobs":
                choice["logprobs"] = _joined_lists(choice.get("logprobs"), value)
            elif name == "text":
                choice["text"] = choice.get("text", "") + (value or "")
            elif value is not None:
                choice[name] = value


def _add_delta(message: Json, delta: Json) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            for piece in value or ():
                _add_call(message.setdefault("tool_calls", []), piece)
        elif name in _TEXTS and isinstance(value, str):
            message[name] = (message.get(name) or "") + value
        elif name in _JOINED and isinstance(value, dict):
            message[name] = _JOINED[name](message.get(name) or {}, value)
        elif isinstance(value, list) and isinstance(message.get(name), list):
            message[name] = message[name] + value
        elif value is not None:
            message[name] = value


def _joined_audio(old: Json, new: Json) -> Json:
    """Join audio, whose chunks are encoded in base64 separately, and its transcript."""
    both = {
        name: old[name] + new[name]
        for name in ("data", "transcript")
        if name in old and name in new
    }
    if str(old.get("data", "")).endswith("=") and "data" in both:
        both["data"] = b64encode(b64decode(old["data"]) + b64decode(new["data"])).decode()
    return old | new | both


def _joined_call(old: Json, new: Json) -> Json:
    """The older form of a call: one function, its name first and its arguments in pieces."""
    return {
        **old,
        **new,
        "name": old.get("name") or new.get("name") or "",
        "arguments": (old.get("arguments") or "") + (new.get("arguments") or ""),
    }


_JOINED: Final[Mapping[str, Callable[[Json, Json], Json]]] = {
    "audio": _joined_audio,
    "function_call": _joined_call,
}


def _add_call(calls: list[Json], piece: Json) -> None:
    """Add a chunk to the call with its `index`; without one, an `id` starts the next call."""
    last = len(calls) if piece.get("id") or not calls else len(calls) - 1
    place = {call["index"]: call for call in calls}
    index = piece.get("index", last)
    if index not in place:
        place[index] = {"index": index, "function": {"name": "", "arguments": ""}}
        calls.append(place[index])
    call, function = place[index], piece.get("function") or {}
    call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""
    call.update({n: v for n, v in piece.items() if n != "function" and v is not None})


def _joined_lists(old: Json | None, new: Json | None) -> Json | None:
    if old is None or new is None:
        return new if old is None else old
    joined = dict(old)
    for name, value in new.items():
        both = isinstance(value, list) and isinstance(joined.get(name), list)
        joined[name] = joined[name] + value if both else value
    return joined


def _finished(choice: Json) -> Json:
    message = choice.get("message")
    if message is None:
        return choice
    calls = sorted(message.get("tool_calls", ()), key=lambda call: call["index"])
    message = {"content": None if calls else "", **message}
    if calls:
        message["content"] = message["content"] or None
        message["tool_calls"] = [
            {"type": "function", **{n: v for n, v in call.items() if n != "index"}}
            for call in calls
        ]
    return {**choice, "message": message}
