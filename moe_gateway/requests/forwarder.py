"""Forward the chunks of a stream without waking the task of its request."""

from hearth.openai_api.sse import EventTooLong
from hearth.openai_api.usage import StreamTap
from moe_gateway.http.server import Line


class StreamForwarder:
    """Forwards chunks in the read callback of the connection, up to the last ones: two thirds of
    the cost of a token is waking the task of its request (decision 0023)."""

    __slots__ = ("_error", "_last", "_line", "_tap")

    def __init__(self, line: Line, tap: StreamTap) -> None:
        self._line, self._tap, self._last = line, tap, b""
        self._error: EventTooLong | None = None

    def __call__(self, data: bytes) -> bool:
        try:
            out = self._tap.feed(data)
        except EventTooLong as error:
            self._error = error
            return False
        if self._tap.done:
            self._last = out
            return False
        return self._line.piece(out) if out else True

    def ended(self) -> bytes:
        """Return the data that was not sent yet. Raises `EventTooLong`."""
        if self._error is not None:
            raise self._error
        return self._last
