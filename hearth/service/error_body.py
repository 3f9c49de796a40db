"""The body of every error: OpenAI's shape, with the type and the code that belong to a status.

OpenAI's clients choose the class of an exception by the HTTP status, show `message` to people and
pass `type`, `param` and `code` on to programs (`_make_status_error` of openai-python). The words
are those of https://platform.openai.com/docs/guides/error-codes and the API's own answers.
"""

from typing import Any, Final

CODES: Final = {
    400: "invalid_value",
    401: "invalid_api_key",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "request_too_large",
    415: "unsupported_content_type",
    500: "internal_error",
}
"""The default code of an error for each status."""


def error_type(status: int) -> str:
    """Return OpenAI's error type for an HTTP status."""
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"


def error_body(
    message: str, *, type: str, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """Return the one shape of an error: `{"error": {"message", "type", "param", "code"}}`."""
    return {"error": {"message": message, "type": type, "param": param, "code": code}}
