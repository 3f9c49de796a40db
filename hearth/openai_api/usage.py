"""Look at a streamed answer while its bytes pass: its usage, and whether it came to its end."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from hearth.openai_api.sse import DONE, MAX_EVENT_BYTES, EventTooLong

_BLANK: Final = re.compile(rb"\n\r?\n")
_DATA: Final = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)
_TELLING: Final = re.compile(rb'"usage"\s*:\s*\{|"error"\s*:')
_DONE: Final = DONE.encode()
_TELLING_MARKS: Final = (b'"usage"', b'"error"')
_MARKS: Final = (*_TELLING_MARKS, _DONE)
"""What an event must hold to be worth a look; in a text that a model says, quotes are escaped."""
_END: Final = b"data: %s\n\n" % _DONE
_AND_END: Final = b"\n\n" + _END
"""How nearly all streams end. Of many tokens that come at once, a search is as long as all of
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

    def feed(self, data: bytes) -> bytes:
        """What of `data`, and of what waited, may be passed on now; may be empty.

        Raises `EventTooLong` when an event has no end.
        """
        if self._rest:
            data = self._rest + data
        if data.endswith(b"\n\n"):
            self._rest = b""
        else:
            end = _last_end(data)
            data, self._rest = data[:end], data[end:]
            if len(self._rest) > MAX_EVENT_BYTES:
                raise EventTooLong(f"An event is longer than {MAX_EVENT_BYTES} bytes.")
        marks: Sequence[bytes] = _MARKS
        if data.endswith(_AND_END) or data == _END:
            self.done, marks = True, _TELLING_MARKS
        for mark in marks:
            if mark in data:
                return self._without_usage(data, marks)
        return data

    def _without_usage(self, data: bytes, marks: Sequence[bytes]) -> bytes:
        """Look at the marked events among these whole ones, and take out the usage chunk."""
        kept, begin = [], 0
        for start, end in _marked_events(data, marks):
            if not self._look(data[start:end]):
                kept.append(data[begin:start])
                begin = end
        return b"".join((*kept, data[begin:])) if kept else data

    def _look(self, event: bytes) -> bool:
        """Whether the caller shall get this event."""
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


def _data_of(event: bytes) -> bytes:
    """What an event says; nearly all have one line, for which the expression is slow."""
    line = event.strip(b"\r\n")
    if line.startswith(b"data:") and b"\n" not in line:
        return line[5:].removeprefix(b" ")
    return b"\n".join(_DATA.findall(event))


def _last_end(data: bytes, start: int = 0, stop: int | None = None) -> int:
    """Where the last whole event ends that lies between these places."""
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
