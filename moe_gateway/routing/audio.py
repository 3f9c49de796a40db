"""Parse the fields of a speech request that the gateway needs; the body is passed on unchanged."""

import re
from dataclasses import dataclass
from typing import Final

from hearth.service.http_errors import Refused, wrong_content_type
from moe_gateway.routing.body import Look

MULTIPART: Final = b"multipart/form-data"
BOUNDARY: Final = re.compile(rb'multipart/form-data;.*?boundary="?([^";]{1,70})', re.IGNORECASE)
NAME: Final = re.compile(
    rb'content-disposition:[^\r\n]*?[; ]name=(?:"([^"]*)"|([^\s;"]+))', re.IGNORECASE
)
"""Quoted, or a token (RFC 2183, section 2), as .NET sends it."""
MAX_PARTS: Final = 64
MAX_HEAD: Final = 8192
"""Bytes of a part's own headers."""


@dataclass(frozen=True)
class Field:
    """One field of a form: its text, and its position in the body."""

    text: str
    start: int
    end: int


def form_look(content_type: bytes, body: bytes) -> Look:
    """Read a request to `/v1/audio/transcriptions`. Raises `Refused` (415, 400)."""
    model = form_field(content_type, body, b"model")
    if model is None:
        message = "The form has no field `model`."
        raise Refused(400, "missing_required_parameter", message, param="model")
    stream = form_field(content_type, body, b"stream")
    return Look(model=model.text, stream=stream is not None and stream.text.lower() == "true")


def with_model(content_type: bytes, body: bytes, model: str) -> bytes:
    """Return the form with another model."""
    field = form_field(content_type, body, b"model")
    assert field is not None
    return body[: field.start] + model.encode() + body[field.end :]


def form_field(content_type: bytes, body: bytes, name: bytes) -> Field | None:
    """Return a field of a multipart form (RFC 7578) that is not a file; None if it is absent.

    Raises `Refused` (415, 400) if the body is not such a form.
    """
    found = BOUNDARY.match(content_type)
    if found is None:
        if content_type.lower().startswith(MULTIPART):
            raise Refused(400, "invalid_form", "The header Content-Type names no boundary.")
        raise wrong_content_type(content_type.decode("latin-1"), MULTIPART.decode())
    mark = b"--" + found.group(1)
    at = body.find(mark)
    for _ in range(MAX_PARTS):
        head_end = body.find(b"\r\n\r\n", at, at + MAX_HEAD)
        end = body.find(b"\r\n" + mark, head_end)
        if at < 0 or head_end < 0 or end < 0:
            break
        head = body[at:head_end]
        named = NAME.search(head)
        if named and name in named.groups() and b"filename" not in head.lower():
            text = body[head_end + 4 : end].decode("utf-8", "replace")
            return Field(text, head_end + 4, end)
        at = end + 2
    if at < 0:
        raise Refused(400, "invalid_form", "The form does not begin with its boundary.")
    return None
