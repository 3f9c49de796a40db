"""Who may ask, and how every error becomes the JSON body that OpenAI clients show to people."""

import hashlib
import hmac
from collections.abc import Sequence

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from hearth.openai_api.errors import error_body, not_sent_as_json
from hearth.service.health import Health
from speech.errors import SpeechError

log = structlog.get_logger()


class Refused(Exception):
    """Raise it before the first byte: the caller gets this status and this sentence."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None) -> None:
        self.status, self.code, self.message, self.param = status, code, message, param
        super().__init__(message)


class Keys:
    """The keys that open a service."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]

    def check(self, request: Request) -> None:
        """Let the request pass, or raise `Refused`; the time it takes tells nothing of a key."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        given = hashlib.sha256(key.strip().encode()).digest()
        found = [hmac.compare_digest(given, digest) for digest in self._digests]
        if scheme.lower() != "bearer" or not any(found):
            raise Refused(401, "invalid_api_key", "No valid key: send `Authorization: Bearer …`.")


def known_caller(request: Request) -> None:
    """A dependency of every route but health and metrics; nothing is taken before all is ready."""
    keys, health = request.app.state.keys, request.app.state.health
    assert isinstance(keys, Keys)
    assert isinstance(health, Health)
    keys.check(request)
    if not health.ready:
        raise Refused(503, "not_ready", "; ".join(health.report().reasons))


def error_type(status: int) -> str:
    """The `type` of OpenAI's error body for a status."""
    if status == 401:
        return "authentication_error"
    return "server_error" if status >= 500 else "invalid_request_error"


def answer_errors_as_openai(app: FastAPI) -> None:
    """Every error of `app`, the framework's own included, gets OpenAI's body."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(SpeechError, _failed)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _plain)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    body = error_body(
        error.message, type=error_type(error.status), code=error.code, param=error.param
    )
    return JSONResponse(body, error.status)


async def _failed(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SpeechError)
    if error.status >= 500:
        log.error("speech_failed", code=error.code, reason=str(error))
    body = error_body(str(error), type=error_type(error.status), code=error.code)
    return JSONResponse(body, error.status)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"][1:])
    told = problem["msg"]
    if problem["type"] == "value_error":  # Words of the framework's own, with classes of Python.
        told = "it has to be a file, sent with its name"
    message = f"{place or 'body'}: {told}."
    if problem["loc"] == ("body",):
        message = not_sent_as_json(request.headers.get("content-type", "")) or message
    body = error_body(message, type=error_type(400), code=problem["type"], param=place or None)
    return JSONResponse(body, 400)


async def _plain(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = f"{error.detail.rstrip('.')}: {request.method} {request.url.path}."
    body = error_body(message, type=error_type(error.status_code))
    return JSONResponse(body, error.status_code)
