"""Errors: the body that OpenAI clients show to people, and what our client raises.

ModelError
  + ModelUnavailable   it did not begin to answer
  + ModelRefused       it understood the request and said no
  + ModelLost          it broke off in the middle
"""

from typing import Any

from hearth.openai_api.sse import sse_event
from hearth.service.error_body import error_body


def error_event(
    message: str, *, type: str, code: str | None = None, param: str | None = None
) -> bytes:
    """The same error as the last event of a stream that has begun; no `[DONE]` follows it."""
    return sse_event(error_body(message, type=type, code=code, param=param))


class ModelError(Exception):
    """A model server gave no answer. The subclass says how far it came."""


class ModelUnavailable(ModelError):
    """Nothing was answered, so asking again, later or elsewhere, is safe.

    `status` is the HTTP status, or None when no connection or no answer came.
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
    """The answer broke off; what came so far is incomplete. Ask again from the start."""


def message_of(body: Any) -> str:
    """The words of an error body, whatever its shape."""
    if isinstance(body, dict):
        inner = body.get("error", body.get("detail", body))
        body = inner.get("message", inner) if isinstance(inner, dict) else inner
    return str(body)
