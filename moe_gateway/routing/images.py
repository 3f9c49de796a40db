"""Read requests for images: the fields that the gateway needs; the others are passed on."""

from collections.abc import Collection
from typing import Annotated, Final

import msgspec

from hearth.service.http_errors import Refused
from moe_gateway.errors import unsupported_field
from moe_gateway.routing.body import changed
from moe_gateway.settings import AUTO

OPENAI_IMAGES: Final = frozenset(
    (
        *("dall-e-2", "dall-e-3", "gpt-image-1", "gpt-image-1-mini", "gpt-image-1.5"),
        *("gpt-image-2", "chatgpt-image-latest"),
    )
)
"""Model names that some clients send and cannot change."""


class _Model(msgspec.Struct):
    model: str | None = None


class _Prompt(msgspec.Struct):
    prompt: Annotated[str, msgspec.Meta(min_length=1)]


_MODEL: Final = msgspec.json.Decoder(_Model)
_PROMPT: Final = msgspec.json.Decoder(_Prompt)


def with_image_model(body: bytes, known: Collection[str]) -> bytes:
    """Return the body with the model `auto` where it names none, or one of OpenAI's that no server
    has. A body that cannot be read is returned as it is.

    OpenAI's API makes the field optional, and clients send its default.
    """
    try:
        model = _MODEL.decode(body).model
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body
    if model is None or (model in OPENAI_IMAGES and model not in known):
        return changed(body, model=AUTO)
    return body


def check_prompt(body: bytes, *, stream: bool) -> None:
    """Check that the body is a request for images. Raises `Refused` (400)."""
    try:
        _PROMPT.decode(body)
    except msgspec.ValidationError as error:
        message = f"The request is not valid: {error}."
        raise Refused(400, "invalid_type", message, param="prompt") from error
    if stream:
        raise unsupported_field("stream", "an image is sent when it is complete")
