"""Refusals of the agent: the errors of the application as answers."""

import json
import re
from collections.abc import Callable
from typing import Final

from fastapi import FastAPI, Request
from starlette.requests import HTTPConnection

from hearth.service.http_errors import Refused, add_error_handlers, invalid_json
from pipecatapp.application.engine import InvalidDocument
from pipecatapp.application.errors import ERRORS, ErrorCode
from pipecatapp.application.runs import shown

_SUSPECT: Final = re.compile(rb"\\u[dD][89a-fA-F]|NaN|Infinity")
"""Sequences in a body that need a closer check."""


async def sound_json(connection: HTTPConnection) -> None:
    """Refuse a body with values that JSON cannot represent: half a character (a lone surrogate,
    from a program that splits an emoji) or NaN. A stored value of this kind could not be sent any
    more.
    """
    if isinstance(connection, Request) and "json" in connection.headers.get("content-type", ""):
        body = await connection.body()
        if _SUSPECT.search(body) or not _is_utf8(body):
            try:
                told = json.loads(body, parse_constant=_no_number)
                json.dumps(told, ensure_ascii=False).encode()
            except (ValueError, RecursionError) as error:
                what = "half a character" if isinstance(error, UnicodeError) else str(error)
                raise invalid_json(what) from error


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def answer_errors_as_openai(app: FastAPI) -> None:
    """Register the errors of the application in addition to those of every service."""
    refusals = {kind: _refusal(error) for kind, error in ERRORS.items()}
    add_error_handlers(app, {**refusals, InvalidDocument: _invalid_document})


def _refusal(known: ErrorCode) -> Callable[[Exception], Refused]:
    """Return the function that makes an answer of an error."""
    return lambda error: Refused(known.status, known.code, str(error), param=known.param)


def _invalid_document(error: InvalidDocument) -> Refused:
    """Return the answer with the file and line of each problem."""
    refused = _refusal(ERRORS[InvalidDocument])(error)
    refused.details = {"diagnostics": shown(error.diagnostics)}
    return refused
