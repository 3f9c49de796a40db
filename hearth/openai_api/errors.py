"""Errors: the body for OpenAI clients, and the exceptions of our client.

ModelError
  + ModelUnavailable   the answer did not begin
  + ModelRefused       the server refused the request
  + ModelLost          the answer was interrupted
"""

from typing import Any

from hearth.openai_api.sse import sse_event
from hearth.service.error_body import error_body


def error_event(
    message: str, *, type: str, code: str | None = None, param: str | None = None
) -> bytes:
    """Return the error as the last event of a stream that has begun; no `[DONE]` follows it."""
    return sse_event(error_body(message, type=type, code=code, param=param))


class ModelError(Exception):
    """A model server gave no answer; the subclass states at which stage."""


class ModelUnavailable(ModelError):
    """The answer did not begin, so a retry, later or at another server, is safe.

    `status` is the HTTP status, or None without a connection or response.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class ModelRefused(ModelError):
    """Change the request: the same one will be refused again (429: wait first).

    `status` is the HTTP status, `body` the decoded error body, or its text if it is not JSON.
    """

    def __init__(self, status: int, body: Any) -> None:
        self.status, self.body = status, body
        super().__init__(f"HTTP {status}: {message_of(body)}")


class ModelLost(ModelError):
    """The answer was interrupted and is incomplete. Repeat the whole request."""


def message_of(body: Any) -> str:
    """The words of an error body, whatever its shape."""
    if isinstance(body, dict):
        inner = body.get("error", body.get("detail", body))
        body = inner.get("message", inner) if isinstance(inner, dict) else inner
    return str(body)
