"""Observe a streamed answer as its bytes pass: its usage, and whether it is complete."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from hearth.openai_api.sse import DONE, MAX_EVENT_BYTES, EventTooLong, sse_event

_BLANK: Final = re.compile(rb"\n\r?\n")
_DATA: Final = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)
_TELLING: Final = re.compile(rb'"usage"\s*:\s*\{|"error"\s*:')
_DONE: Final = DONE.encode()
_USAGE: Final = b'"usage"'
_MARKS: Final = (_USAGE, b'"error"', _DONE)
"""Substrings of events that are parsed; in generated text, quotes are escaped."""
_END: Final = b"data: %s\n\n" % _DONE
_AND_END: Final = b"\n\n" + _END
"""The end of nearly all streams. If many tokens arrive together, a search would read all of
them."""


class TokenCount(NamedTuple):
    """Tokens of one answer; `cached` are those of the prompt that were in the server's cache."""

    prompt: int
    completion: int
    cached: int = 0


def count_of(usage: Any) -> TokenCount | None:
    """The counts in a `usage` object; None when it has no such numbers (embeddings have no
    `completion_tokens`)."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens", 0)
    if not isinstance(prompt, int) or not isinstance(completion, int):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return TokenCount(prompt, completion, cached if isinstance(cached, int) else 0)


class Bill:
    """Token counts of one request with several answers, for each form in which servers send them.

    llama.cpp reports them for each answer: of a chat in an event without choices, of plain text
    with its last words (`to_json_oaicompat…` of its server); OpenAI once for all. `shared` answers
    have one prompt, which is counted once.
    """

    def __init__(self, shared: int = 1) -> None:
        self._shared = shared
        self._apart = list[tuple[dict[str, Any], TokenCount]]()
        self._beside = dict[int, tuple[dict[str, Any], TokenCount]]()
        """The last counts of each choice: some servers send them with every token."""

    def add(self, chunk: Mapping[str, Any]) -> bool:
        """Take an event's `usage`; False when it has no counts."""
        usage, choices = chunk.get("usage"), chunk.get("choices")
        count = count_of(usage)
        if count is None or usage is None:
            return False
        if choices:
            self._beside[choices[0].get("index", 0)] = usage, count
        else:
            self._apart.append((usage, count))
        return True

    @property
    def _told(self) -> Sequence[tuple[dict[str, Any], TokenCount]]:
        return self._apart or list(self._beside.values())

    @property
    def count(self) -> TokenCount | None:
        """Counts of all answers together; None without any counts."""
        counts = [count for _, count in self._told]
        if len(counts) < 2:
            return counts[0] if counts else None
        prompt, completion, cached = (sum(column) for column in zip(*counts, strict=True))
        return TokenCount(prompt // self._shared, completion, cached // self._shared)

    @property
    def usage(self) -> dict[str, Any] | None:
        """The counts in OpenAI's format."""
        count = self.count
        if count is None or len(self._told) == 1:
            return self._told[0][0] if self._told else None
        return {
            "prompt_tokens": count.prompt,
            "completion_tokens": count.completion,
            "total_tokens": count.prompt + count.completion,
            "prompt_tokens_details": {"cached_tokens": count.cached},
        }


class StreamTap:
    """Passes whole events on; reads `usage`, `done` and `failed` off them.

    With `strip` the chunk that carries nothing but the usage is taken out: its caller did not ask
    for it. Lines end with LF or CRLF. Bytes after the last blank line wait for more, so a caller
    never gets half an event before an error event of ours.
    """

    def __init__(self, *, strip: bool) -> None:
        self.usage: TokenCount | None = None
        self.done = False
        """`[DONE]` has passed: the answer is complete."""
        self.failed = False
        """An error event has passed."""
        self._strip = strip
        self._rest = b""
        self._seen, self._sample = 0, b""
        """Bytes of events, and the largest piece of them."""

    def tokens(self) -> int:
        """Estimate the received tokens: servers send each in an event, and events have similar
        sizes. Used for interrupted answers only; counting each event would slow down every
        stream."""
        if not self._sample:
            return 0
        return round(self._seen * len(_BLANK.findall(self._sample)) / len(self._sample)) - 1

    def feed(self, data: bytes) -> bytes:
        """Return the complete events of the pending data and `data`; may be empty.

        Raises `EventTooLong` when an event has no end.
        """
        if self._rest:
            data = self._rest + data
        if data.endswith(b"\n\n"):
            self._rest = b""
        else:
            data = self._ended(data)
        self._seen += len(data)
        if len(data) > len(self._sample):
            self._sample = data
        marks: Sequence[bytes] = _MARKS
        if data.endswith(_AND_END) or data == _END:
            self.done, marks = True, (_USAGE,)
            if not self._strip:
                self._read_last_usage(data)
                return data
        for mark in marks:
            if mark in data:
                return self._without_usage(data, marks)
        return data

    def _ended(self, data: bytes) -> bytes:
        """Return the complete events and keep the rest."""
        end = _last_end(data)
        self._rest = data[end:]
        if len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLong(f"An event is longer than {MAX_EVENT_BYTES} bytes.")
        return data[:end]

    def _read_last_usage(self, data: bytes) -> None:
        """Read the usage in the last events of a complete stream. It is searched from the end."""
        at, known = data.rfind(_USAGE), self.usage
        while at >= 0 and self.usage is known:
            start = _last_end(data, 0, at)
            blank = _BLANK.search(data, at)
            self._look(data[start : blank.end() if blank else len(data)])
            at = data.rfind(_USAGE, 0, start)

    def _without_usage(self, data: bytes, marks: Sequence[bytes]) -> bytes:
        """Read the marked events among these complete ones, and remove the usage chunk."""
        kept, begin = [], 0
        for start, end in _marked_events(data, marks):
            if not self._look(data[start:end]):
                kept.append(data[begin:start])
                begin = end
        return b"".join((*kept, data[begin:])) if kept else data

    def _look(self, event: bytes) -> bool:
        """Read an event; returns whether it is sent to the caller."""
        data = _data_of(event)
        if data == _DONE:
            self.done = True
            return True
        if not _TELLING.search(data):
            return True
        try:
            chunk = json.loads(data)
        except ValueError:
            return True
        if not isinstance(chunk, dict):
            return True
        self.failed = self.failed or bool(chunk.get("error"))
        count = count_of(chunk.get("usage"))
        self.usage = count or self.usage
        return not (self._strip and count and not chunk.get("choices"))


class SeveralTap(StreamTap):
    """Reads the counts of a stream with several answers, and reports their sum once, at the end.

    llama-server begins the answer to each prompt after the first one with the event `null`, which
    official clients cannot parse: it is removed.
    """

    def __init__(self, shared: int, *, strip: bool) -> None:
        """`shared`: see `Bill`."""
        super().__init__(strip=True)
        self._bill, self._last, self._tells = Bill(shared), dict[str, Any](), not strip
        self._events = 0

    def tokens(self) -> int:
        return self._events - 1

    def feed(self, data: bytes) -> bytes:
        data = self._ended(self._rest + data)
        ends = [0, *(blank.end() for blank in _BLANK.finditer(data))]
        self._events += len(ends) - 1
        return b"".join(self._kept(data[a:b]) for a, b in pairwise(ends))

    def _kept(self, event: bytes) -> bytes:
        """Return the bytes that replace this event for the caller."""
        told = _data_of(event)
        if told == b"null":
            return b""
        self._look(event)
        if self.done:
            return self._total() + event
        if b'"usage"' not in told:
            return event
        try:
            chunk = json.loads(told)
        except ValueError:
            return event
        if not isinstance(chunk, dict) or not self._bill.add(chunk):
            return event
        del chunk["usage"]
        self._last, self.usage = {**chunk, "choices": []}, self._bill.count
        return sse_event(chunk) if chunk.get("choices") else b""

    def _total(self) -> bytes:
        usage = self._bill.usage
        return sse_event({**self._last, "usage": usage}) if self._tells and usage else b""


def _data_of(event: bytes) -> bytes:
    """Return the data of an event. Nearly all events have one line; the expression is slow."""
    line = event.strip(b"\r\n")
    if line.startswith(b"data:") and b"\n" not in line:
        return line[5:].removeprefix(b" ")
    return b"\n".join(_DATA.findall(event))


def _last_end(data: bytes, start: int = 0, stop: int | None = None) -> int:
    """Return the end of the last complete event between these positions."""
    stop = len(data) if stop is None else stop
    lf = data.rfind(b"\n\n", start, stop)
    crlf = data.rfind(b"\n\r\n", start, stop) if b"\r" in data else -1
    return max(lf + 2 if lf >= 0 else start, crlf + 3 if crlf >= 0 else start)


def _marked_events(data: bytes, marks: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Start and end of each event that holds a mark; each mark is looked for once in all."""
    found = [(at, mark) for mark in marks if (at := data.find(mark)) >= 0]
    start = 0
    while found:
        first = min(found)[0]
        start = _last_end(data, start, first)
        blank = _BLANK.search(data, first)
        end = blank.end() if blank else len(data)
        yield start, end
        start = end
        found = [(data.find(mark, end) if at < end else at, mark) for at, mark in found]
        found = [(at, mark) for at, mark in found if at >= 0]
