"""The lines of a streamed answer of Ollama's API, made of the chunks of a chat or a completion."""

from typing import Any

from moe_gateway.api.ollama.answer import Answer, call_of, error_of, texts_of

Json = dict[str, Any]


class Events:
    """Converts chunks to lines. `ended` is true after the last line.

    A tool call is sent as a whole, as Ollama does: its parts are collected until the next call
    begins or the answer ends.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.ended = False
        self._call: Json = {}
        self._number: object = None
        """The number of the call that is being collected."""
        self._finish: Any = None
        self._usage: Any = None
        self._timings: Any = None

    def begin(self) -> list[Json]:
        """Return nothing: the first line has content."""
        return []

    def add(self, chunk: Json) -> list[Json]:
        """Return the lines of one chunk."""
        self._usage = chunk.get("usage") or self._usage
        self._timings = chunk.get("timings") or self._timings
        lines: list[Json] = []
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) == 0:
                lines += self._add_choice(choice)
                self._finish = choice.get("finish_reason") or self._finish
        return lines

    def end(self) -> list[Json]:
        """Return the last call, if there is one, and the line with the counts."""
        self.ended = True
        last = self.answer.last(self._finish, self._usage, self._timings)
        return [*self._collected(), last]

    def fail(self, error: Json) -> list[Json]:
        """Return the line of an answer that broke off: clients raise at it."""
        self.ended = True
        return [error_of(error)]

    def _add_choice(self, choice: Json) -> list[Json]:
        delta = choice.get("delta") or {"content": choice.get("text")}
        lines: list[Json] = []
        texts, logprobs = texts_of(delta), choice.get("logprobs") or {}
        if texts["content"] or texts["thinking"]:
            lines.append(self.answer.line(texts, logprobs=logprobs.get("content")))
        for piece in delta.get("tool_calls") or ():
            lines += self._add_call(piece)
        return lines

    def _add_call(self, piece: Json) -> list[Json]:
        lines: list[Json] = []
        number, function = piece.get("index", 0), piece.get("function") or {}
        if number != self._number:
            lines = self._collected()
            self._number = number
            self._call = {"id": piece.get("id"), "function": {"name": "", "arguments": ""}}
        whole = self._call["function"]
        whole["name"] = whole["name"] or function.get("name") or ""
        whole["arguments"] += function.get("arguments") or ""
        return lines

    def _collected(self) -> list[Json]:
        """Return the line of the call whose pieces are all there."""
        if self._number is None:
            return []
        self._number = None
        return [self.answer.line({}, calls=[call_of(self._call)])]
