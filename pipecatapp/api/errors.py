"""Refusals, and how every error becomes the JSON body that OpenAI clients show to people."""

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

from hearth.openai_api.errors import error_body, not_sent_as_json
from pipecatapp.api.edge import BodyTooLarge
from pipecatapp.library.editing import Changed, NotEdited, UnknownLayer
from pipecatapp.library.stored import UnknownTask
from pipecatapp.runs import shown
from pipecatapp.schedules.store import ScheduleKept, UnknownSchedule
from pipecatapp.schedules.timing import WrongTiming
from pipecatapp.shelf import UnknownProject, UnknownPrompt
from pipecatapp.workflow import (
    InvalidDocument,
    InvalidInputs,
    LedgerFailed,
    NotAsked,
    NotGranted,
    NotImported,
    UnknownRun,
    UnknownStep,
    UnknownWorkflow,
    WrongAnswer,
)

log = structlog.get_logger()

_SUSPECT: Final = re.compile(rb"\\u[dD][89a-fA-F]|NaN|Infinity")
"""What a body may hold that has to be looked at more closely."""

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}

ENGINE_REFUSALS: dict[type[Exception], tuple[int, str, str | None]] = {
    UnknownWorkflow: (404, "workflow_not_found", "workflow"),
    UnknownLayer: (404, "layer_not_found", "layer"),
    Changed: (412, "document_changed", "document"),
    NotEdited: (422, "not_edited", "operations"),
    NotGranted: (403, "not_granted", "allow"),
    UnknownRun: (404, "run_not_found", "run"),
    UnknownStep: (404, "step_not_found", "at"),
    InvalidInputs: (422, "invalid_inputs", "inputs"),
    NotAsked: (409, "not_asked", "path"),
    WrongAnswer: (422, "wrong_answer", "value"),
    NotImported: (422, "not_imported", None),
    LedgerFailed: (503, "ledger_failed", None),
    UnknownPrompt: (404, "prompt_not_found", "id"),
    UnknownProject: (404, "project_not_found", "id"),
    UnknownTask: (404, "task_not_found", "id"),
    UnknownSchedule: (404, "schedule_not_found", "id"),
    ScheduleKept: (409, "schedule_kept", "id"),
    WrongTiming: (422, "wrong_timing", None),
}


class Refused(Exception):
    """Raise it anywhere in a request: the caller gets this status and this sentence."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.status, self.code, self.message = status, code, message
        self.param, self.headers = param, headers
        super().__init__(message)


async def sound_json(connection: HTTPConnection) -> None:
    """Refuse a body that holds what JSON cannot say: half a character (a lone surrogate, which a
    program makes that cuts an emoji) or NaN. Kept once, it could be shown and sent no more.
    """
    if isinstance(connection, Request) and "json" in connection.headers.get("content-type", ""):
        body = await connection.body()
        if _SUSPECT.search(body) or not _is_utf8(body):
            try:
                told = json.loads(body, parse_constant=_no_number)
                json.dumps(told, ensure_ascii=False).encode()
            except (ValueError, RecursionError) as error:
                what = "half a character" if isinstance(error, UnicodeError) else str(error)
                raise Refused(400, "json_invalid", f"The body is no JSON: {what}.") from error


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


def error_type(status: int) -> str:
    """The `type` of OpenAI's error body for a status."""
    return TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")


def answer_errors_as_openai(app: FastAPI) -> None:
    """Every error of `app`, the framework's own included, gets OpenAI's body."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(InvalidDocument, _wrong_document)
    for kind, (status, code, param) in ENGINE_REFUSALS.items():
        app.add_exception_handler(kind, _engine_refusal(status, code, param))
    app.add_exception_handler(HTTPException, _plain)
    app.add_exception_handler(BodyTooLarge, _too_large)
    app.add_exception_handler(Exception, _broken)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    body = error_body(
        error.message, type=error_type(error.status), code=error.code, param=error.param
    )
    return JSONResponse(body, error.status, headers=error.headers)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problem: dict[str, Any] = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"][1:])
    if problem["type"] == "json_invalid":
        message, param = f"The body is no JSON: {problem['ctx']['error']}.", None
    elif problem["type"] == "extra_forbidden":
        message, param = f"Unknown field {place!r}.", place
    else:
        message, param = f"{place or 'body'}: {problem['msg']}.", place or None
        if problem["loc"] == ("body",):
            message = not_sent_as_json(request.headers.get("content-type", "")) or message
    body = error_body(message, type=error_type(400), code=problem["type"], param=param)
    return JSONResponse(body, 400)


async def _wrong_document(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, InvalidDocument)
    body = error_body(str(error), type=error_type(422), code="invalid_document", param="document")
    return JSONResponse(body | {"diagnostics": shown(error.diagnostics)}, 422)


def _engine_refusal(
    status: int, code: str, param: str | None
) -> Callable[[Request, Exception], Awaitable[JSONResponse]]:
    async def answer(request: Request, error: Exception) -> JSONResponse:
        body = error_body(str(error), type=error_type(status), code=code, param=param)
        return JSONResponse(body, status)

    return answer


async def _plain(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = f"{error.detail}: {request.method} {request.url.path}."
    body = error_body(message, type=error_type(error.status_code))
    return JSONResponse(body, error.status_code, headers=error.headers)


async def _too_large(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BodyTooLarge)
    return JSONResponse(error.body(), error.status_code)


async def _broken(request: Request, error: Exception) -> JSONResponse:
    log.error("request_broke", method=request.method, path=request.url.path, error=repr(error))
    body = error_body("The service made a mistake; its log says which.", type=error_type(500))
    return JSONResponse(body, 500)
