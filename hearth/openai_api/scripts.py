"""Rules for the answers of a scripted model, and the chunks of an answer."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from hearth.openai_api.chat import ChatRequest
from hearth.service.error_body import error_body

Match = str | Callable[[ChatRequest], bool]
Call = tuple[str, dict[str, Any]]
Json = dict[str, Any]

Break = Literal[
    "reset", "close", "error", "malformed", "hang", "half-closed", "huge-line", "endless"
]
"""How an answer fails: a TCP reset; the connection closed before the end of the body; an error
event and a clean end; an event that is not valid JSON, then a clean end; no more data; no more
data after this side has closed its half of the connection; a line without end; tokens without
end."""

ARGUMENT_PIECE: Final = 8
CREATED: Final = 1_790_000_000


@dataclass(frozen=True)
class Script:
    """One answer. `wait` and `pause` are seconds: before the first word, between two words."""

    words: tuple[str, ...] = ()
    thoughts: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    wait: float = 0.0
    pause: float = 0.0
    held: threading.Event | None = None
    """If set, the words after the first `held_after` ones are sent only after this event."""
    held_after: int = 0
    finish: str | None = None
    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    breaks: Break | None = None
    breaks_after: int = 0
    """Words that are sent before it breaks; 0: before the status line."""


def words_of(text: str) -> tuple[str, ...]:
    """The pieces that a text streams in; joined they are the text again."""
    return tuple(re.findall(r"\S+\s*|\s+", text))


@dataclass
class Rule:
    """The answers to requests that match. Every method adds one answer and returns the rule."""

    match: Match
    scripts: list[Script] = field(default_factory=list)
    given: int = 0

    def say(
        self,
        text: str,
        *,
        pause: float = 0.0,
        wait: float = 0.0,
        held: threading.Event | None = None,
        held_after: int = 0,
        thoughts: str = "",
        finish: str | None = None,
    ) -> Self:
        """Answer with a text, word by word, after `thoughts` as `reasoning_content`.

        `held`: an event that the test sets to continue, so that it can check the state meanwhile;
        the first `held_after` words are sent before.
        """
        words, before = words_of(text), words_of(thoughts)
        script = Script(
            words, before, wait=wait, pause=pause, held=held, held_after=held_after, finish=finish
        )
        return self._add(script)

    def call_tool(self, name: str, arguments: Json, *, text: str = "", wait: float = 0.0) -> Self:
        """Ask for one tool call, after a text if there is one."""
        return self.call_tools((name, arguments), text=text, wait=wait)

    def call_tools(self, *calls: Call, text: str = "", wait: float = 0.0) -> Self:
        """Request several tool calls in one answer."""
        return self._add(Script(words_of(text), calls=calls, wait=wait))

    def refuse(
        self,
        status: int,
        message: str = "The test says no.",
        *,
        type: str = "server_error",
        code: str | None = None,
        headers: dict[str, str] | None = None,
        held: threading.Event | None = None,
    ) -> Self:
        """Answer with an HTTP error and OpenAI's error body; `held` as in `say`."""
        body = json.dumps(error_body(message, type=type, code=code)).encode()
        return self.answer(body, status=status, headers=headers, held=held)

    def answer(
        self,
        body: bytes,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        held: threading.Event | None = None,
    ) -> Self:
        """Answer every request with exactly these bytes."""
        headers = {"content-type": "application/json", **(headers or {})}
        return self._add(Script(status=status, body=body, headers=headers, held=held))

    def lose(
        self,
        text: str = "",
        *,
        after: int = 0,
        how: Break = "reset",
        pause: float = 0.0,
        wait: float = 0.0,
    ) -> Self:
        """Break off after so many words of the text; 0 breaks before the status line."""
        script = Script(words_of(text), pause=pause, wait=wait, breaks=how, breaks_after=after)
        return self._add(script)

    def hang(self, text: str = "", *, after: int = 0) -> Self:
        """Send `after` words of the text, then nothing more, with the connection open."""
        return self.lose(text, after=after, how="hang")

    def fits(self, request: ChatRequest) -> bool:
        if isinstance(self.match, str):
            return self.match in request.last_text
        return self.match(request)

    def next_script(self) -> Script:
        """The answer whose turn it is: the last one for ever after. A rule needs at least one."""
        script = self.scripts[min(self.given, len(self.scripts) - 1)]
        self.given += 1
        return script

    def _add(self, script: Script) -> Self:
        self.scripts.append(script)
        return self


@dataclass(frozen=True)
class Piece:
    """One chunk of an answer; `word` is what it adds, empty for the frame around the words."""

    chunk: Json
    word: str = ""


def pieces(script: Script, request: ChatRequest, answer_id: str) -> Iterator[Piece]:
    """Yield the chunks of a chat answer in order, without usage; several choices alternate."""
    extra = request.model_extra or {}
    frame = {"id": answer_id, "object": "chat.completion.chunk", "created": CREATED}
    frame["model"] = request.model
    for delta, word, finish in _deltas(script, answer_id):
        for index in range(extra.get("n") or 1):
            choice: Json = {"index": index, "delta": delta, "finish_reason": finish}
            if extra.get("logprobs") and word:
                token = {"token": word, "logprob": -0.5, "bytes": None, "top_logprobs": []}
                choice["logprobs"] = {"content": [token], "refusal": None}
            yield Piece({**frame, "choices": [choice]}, word)


def _deltas(script: Script, answer_id: str) -> Iterator[tuple[Json, str, str | None]]:
    """Each delta with the word it adds and, on the last one, the finish reason."""
    yield {"role": "assistant", "content": None}, "", None
    for thought in script.thoughts:
        yield {"reasoning_content": thought}, thought, None
    for word in script.words:
        yield {"content": word}, word, None
    for call in _call_deltas(script.calls, answer_id):
        yield {"tool_calls": [call]}, "call", None
    yield {}, "", script.finish or ("tool_calls" if script.calls else "stop")


def text_pieces(script: Script, request: ChatRequest, answer_id: str) -> Iterator[Piece]:
    """The same for `POST /v1/completions`: text without roles, tools and thoughts."""
    frame = {"id": answer_id, "object": "text_completion", "created": CREATED}
    frame["model"] = request.model
    for word in script.words:
        choice: Json = {"index": 0, "text": word, "finish_reason": None, "logprobs": None}
        yield Piece({**frame, "choices": [choice]}, word)
    last = {"index": 0, "text": "", "finish_reason": script.finish or "stop", "logprobs": None}
    yield Piece({**frame, "choices": [last]})


def _call_deltas(calls: tuple[Call, ...], answer_id: str) -> Iterator[Json]:
    """A call's first piece has its id and name, the others have pieces of its arguments."""
    for index, (name, arguments) in enumerate(calls):
        yield {
            "index": index,
            "id": f"call_{answer_id}_{index}",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        text = json.dumps(arguments)
        for start in range(0, len(text), ARGUMENT_PIECE):
            part = text[start : start + ARGUMENT_PIECE]
            yield {"index": index, "function": {"arguments": part}}
