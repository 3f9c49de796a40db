"""Error responses and checks of requests, the same in all services.

A service registers `add_error_handlers`, wraps its application in a `BodyLimit` and compares keys
with `BearerKeys`. Each error response is a `Refused`, so the same mistake has the same response.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hearth.service.error_body import CODES, error_body, error_type

log = structlog.get_logger()

Handler = Callable[[Request, Exception], Awaitable[JSONResponse]]

FORMS: Final = ("multipart/form-data", "application/x-www-form-urlencoded")

FIELD_CODES: Final = {
    "missing": "missing_required_parameter",
    "extra_forbidden": "unknown_parameter",
    "string_too_long": "string_above_max_length",
    "string_too_short": "string_below_min_length",
    "too_long": "array_above_max_length",
    "too_short": "array_below_min_length",
    "greater_than": "below_min_value",
    "greater_than_equal": "below_min_value",
    "less_than": "above_max_value",
    "less_than_equal": "above_max_value",
}
"""OpenAI's code for each error of pydantic; `integer_` or `decimal_` precedes the last four."""


class Refused(HTTPException):
    """Change the request as the message states, or wait as `Retry-After` states.

    Raise it anywhere before the first byte of an answer. `status` is the HTTP status, `code` is for
    programs, `param` names the field, `headers` are added to the response and `details` to the
    body, next to `error`. It is an `HTTPException` because FastAPI replaces other exceptions in
    `receive`.
    """

    def __init__(
        self,
        status: int,
        code: str | None,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.status, self.type, self.message = status, error_type(status), message
        self.code, self.param, self.details = code, param, dict(details or {})

    def __str__(self) -> str:
        return self.message

    def body(self) -> dict[str, Any]:
        """Return the JSON object that OpenAI's clients read."""
        body = error_body(self.message, type=self.type, code=self.code, param=self.param)
        return body | self.details

    def response(self) -> JSONResponse:
        """Return the whole answer."""
        return JSONResponse(self.body(), self.status, self.headers)


Refusal = Callable[[], Refused]


def wrong_key(hint: str) -> Refused:
    """Return the 401 of a missing or wrong key; `hint` states where the user finds the right one.

    The first words are OpenAI's: LiteLLM uses them to distinguish a wrong key from a wrong request.
    """
    message = f"Incorrect API key provided: send `Authorization: Bearer <key>`. {hint}"
    headers = {"www-authenticate": 'Bearer realm="hearth"'}
    return Refused(401, CODES[401], message, headers=headers)


def invalid_json(reason: str) -> Refused:
    """Return the 400 of a body that cannot be read."""
    return Refused(400, "invalid_json", f"The body is not valid JSON: {reason}.")


def too_large(limit: int, setting: str, *, headers: Mapping[str, str] | None = None) -> Refused:
    """Return the 413 of a body of more than the `limit` bytes that `setting` allows."""
    message = f"The request body is larger than {limit} bytes (setting {setting})."
    return Refused(413, CODES[413], message, headers=headers)


def wrong_content_type(content_type: str, wanted: str) -> Refused:
    """Return the 415 of a body that was sent with another content type than `wanted`."""
    kind = content_type.partition(";")[0].strip().lower()
    actual = f"It was sent as {kind[:80]}." if kind else "It was sent without this header."
    message = f"Send the body with the header Content-Type: {wanted}. {actual}"
    return Refused(415, CODES[415], message)


def is_json(content_type: str) -> bool:
    """Return whether a `Content-Type` header announces JSON (RFC 6839 for the suffix)."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def bearer_key(authorization: bytes) -> bytes | None:
    """Return the key in an `Authorization` header (RFC 6750, section 2.1); None if it has none."""
    return authorization[7:].strip() if authorization[:7].lower() == b"bearer " else None


def sent_key(connection: HTTPConnection) -> bytes | None:
    """Return the bearer key of a request or a WebSocket."""
    return bearer_key(connection.headers.get("authorization", "").encode("latin-1"))


class BearerKeys:
    """The valid keys of a service; only their SHA-256 digests are stored."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]

    def opens(self, key: bytes) -> bool:
        """Return whether `key` is valid, in a time that does not depend on the key."""
        digest = hashlib.sha256(key).digest()
        same = [hmac.compare_digest(digest, own) for own in self._digests]
        return any(same)


def limited(
    headers: Iterable[tuple[bytes, bytes]], receive: Receive, limit: int, refusal: Refusal
) -> Receive:
    """Return `receive` of a request whose body may have `limit` bytes.

    Raises what `refusal` returns: here if the request declares more, else from `receive`.
    """
    length = next((value for name, value in headers if name == b"content-length"), b"")
    if length.isdigit() and int(length) > limit:
        raise refusal()
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise refusal()
        return message

    return counted


class BodyLimit:
    """ASGI middleware: refuse bodies of more than `limit` bytes, except below `unlimited` paths."""

    def __init__(
        self, app: ASGIApp, *, limit: int, setting: str, unlimited: tuple[str, ...] = ()
    ) -> None:
        """`setting` is the environment variable that sets the limit, for the message."""
        self.app, self.limit, self.unlimited = app, limit, unlimited
        self.refusal = partial(too_large, limit, setting)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope["path"].startswith(self.unlimited):
            try:
                receive = limited(scope["headers"], receive, self.limit, self.refusal)
            except Refused as refused:
                await refused.response()(scope, receive, send)
                return
        await self.app(scope, receive, send)


def add_error_handlers(
    app: FastAPI,
    translations: Mapping[type[Exception], Callable[[Any], Refused]] | None = None,
    *,
    unknown_path_hint: str = "",
) -> None:
    """Make every error of `app` a `Refused`, including those of the framework.

    `translations` converts the service's exceptions; `unknown_path_hint` is added to the message of
    a 404.
    """

    def of_framework(request: Request, error: HTTPException) -> Refused:
        return _of_framework(request, error, unknown_path_hint)

    for kind, translate in (translations or {}).items():
        app.add_exception_handler(kind, _handler(translate))
    app.add_exception_handler(Refused, _handler(lambda error: error))
    app.add_exception_handler(RequestValidationError, _handler_of_request(_of_field))
    app.add_exception_handler(HTTPException, _handler_of_request(of_framework))
    app.add_exception_handler(Exception, _handler_of_request(_of_service))


def _handler(translate: Callable[[Any], Refused]) -> Handler:
    async def answer(request: Request, error: Exception) -> JSONResponse:
        return translate(error).response()

    return answer


def _handler_of_request(translate: Callable[[Request, Any], Refused]) -> Handler:
    async def answer(request: Request, error: Exception) -> JSONResponse:
        return translate(request, error).response()

    return answer


def _of_framework(request: Request, error: HTTPException, unknown_path_hint: str) -> Refused:
    """Translate an error of Starlette: an unknown path, a wrong method, an unreadable body."""
    status, detail = error.status_code, f"{error.detail.rstrip('.')}."
    if status == 400:
        form = request.headers.get("content-type", "").lower().startswith(FORMS)
        return Refused(400, "invalid_form" if form else "invalid_json", detail)
    message = f"{request.method} {request.url.path[:200]}: {detail}"
    if status == 404 and unknown_path_hint:
        message += f" {unknown_path_hint}"
    return Refused(status, CODES.get(status), message, headers=error.headers)


def _of_service(request: Request, error: Exception) -> Refused:
    """Translate an unexpected error; only the log states the reason."""
    log.error("request_broke", method=request.method, path=request.url.path, error=repr(error))
    return internal_error()


def internal_error() -> Refused:
    """Return the 500 of a bug in the service."""
    return Refused(500, CODES[500], "The service failed. Its log has the reason.")


def _of_field(request: Request, error: RequestValidationError) -> Refused:
    """Translate the error of the first invalid field."""
    problem: Mapping[str, Any] = error.errors()[0]
    content_type = request.headers.get("content-type", "")
    if problem["type"] == "json_invalid":
        return invalid_json(str(problem["ctx"]["error"]))
    if isinstance(error.body, FormData) and not content_type.lower().startswith(FORMS):
        return wrong_content_type(content_type, FORMS[0])
    if problem["loc"] == ("body",) and error.body is not None and not is_json(content_type):
        return wrong_content_type(content_type, "application/json")
    place = ".".join(str(part) for part in problem["loc"][1:])
    message = f"{place or 'The body'}: {_words(problem)}."
    if problem["type"] == "extra_forbidden":
        message = f"Unknown field {place!r}."
    return Refused(400, _field_code(problem), message, param=place or None)


def _words(problem: Mapping[str, Any]) -> str:
    """Describe a validation error without Python's terms."""
    words = str(problem["msg"]).removeprefix("Value error, ")
    return "send it as a file with a file name" if "UploadFile" in words else words


def _field_code(problem: Mapping[str, Any]) -> str:
    """Return OpenAI's code for a problem of pydantic."""
    kind, context = problem["type"], problem.get("ctx", {})
    code = FIELD_CODES.get(kind)
    if kind == "too_short" and not context["actual_length"]:
        return "empty_array"
    if code is None:
        return "invalid_type" if kind.endswith(("_type", "_parsing", "from_float")) else CODES[400]
    if code.endswith("_value"):
        bound = next(context[name] for name in ("gt", "ge", "lt", "le") if name in context)
        return f"{'decimal' if isinstance(bound, float) else 'integer'}_{code}"
    return code
