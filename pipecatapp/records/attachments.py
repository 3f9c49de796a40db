"""Files and images of a message: how they are sent to a model, and found again in what was sent.

A message with attachments is a list of OpenAI content parts: the text of the person, then one text
part per file, and two parts per image, of which the first names it.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

LONGEST_TEXT: Final = 200_000
"""Characters of a text file."""
LONGEST_IMAGE: Final = 4_000_000
"""Characters of an image as a data URL: 3 MB."""
MOST: Final = 8
"""Attachments of one message."""

_IMAGE: Final = re.compile(r"data:(image/(?:png|jpeg|webp|gif));base64,([A-Za-z0-9+/]+=*)")
_NAMED: Final = re.compile(r"\A(File|Image) `([^`\n]+)`:(?:\n\n`{3,}\n(.*)\n`{3,})?\Z", re.DOTALL)
_FENCE: Final = re.compile(r"^`{3,}", re.MULTILINE)

Part = Mapping[str, Any]


class Attachment(BaseModel):
    """A text file, or an image as a data URL (PNG, JPEG, WebP or GIF)."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    text: str | None = Field(default=None, max_length=LONGEST_TEXT)
    image: str | None = Field(default=None, max_length=LONGEST_IMAGE)

    @field_validator("name")
    @classmethod
    def _one_line(cls, name: str) -> str:
        """Keep a name on one line, and without the mark that ends it in a prompt."""
        line = " ".join(name.replace("`", "'").split())
        if not line:
            raise ValueError("a name needs a visible character")
        return line

    @field_validator("image")
    @classmethod
    def _is_image(cls, image: str | None) -> str | None:
        if image is not None and _IMAGE.fullmatch(image) is None:
            raise ValueError("give an image as a data URL with base64: PNG, JPEG, WebP or GIF")
        return image

    @model_validator(mode="after")
    def _is_one_of_both(self) -> "Attachment":
        if (self.text is None) == (self.image is None):
            raise ValueError("give either a text or an image")
        return self


class AttachmentSummary(BaseModel):
    """An attachment in a list: name and kind. Its content has a separate address."""

    name: str
    kind: Literal["text", "image"]


class AttachmentContent(BaseModel):
    """The content of an attachment."""

    media_type: str
    body: bytes


def parts_of(text: str, attachments: Sequence[Attachment]) -> list[dict[str, Any]]:
    """A message as content parts; empty where the message is only a text."""
    if not attachments:
        return []
    parts: list[dict[str, Any]] = [_text(text)] if text else []
    for one in attachments:
        if one.text is not None:
            parts.append(_text(block(one.name, one.text)))
        else:
            parts += [_text(f"Image `{one.name}`:")]
            parts += [{"type": "image_url", "image_url": {"url": one.image}}]
    return parts


def block(name: str, text: str) -> str:
    """A text file as a model reads it: named, in a fence that is longer than any in the file."""
    longest = max((len(found[0]) for found in _FENCE.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"File `{name}`:\n\n{fence}\n{text}\n{fence}"


def attachments_of(parts: Sequence[Part]) -> list[Attachment]:
    """The attachments of a message that `parts_of` made; parts of other origin are left out."""
    found: list[Attachment] = []
    for part, following in zip(parts, [*parts[1:], {}], strict=False):
        if (named := _NAMED.match(str(part.get("text", "")))) is None:
            continue
        if named[1] == "File" and named[3] is not None:
            found.append(Attachment.model_construct(name=named[2], text=named[3], image=None))
        elif named[1] == "Image" and following.get("type") == "image_url":
            url = str(following["image_url"]["url"])
            found.append(Attachment.model_construct(name=named[2], text=None, image=url))
    return found


def summary_of(attachment: Attachment) -> AttachmentSummary:
    """Return the summary of an attachment for lists."""
    kind: Literal["text", "image"] = "image" if attachment.text is None else "text"
    return AttachmentSummary(name=attachment.name, kind=kind)


def content_of(attachment: Attachment) -> AttachmentContent:
    """The bytes of an attachment and what they are."""
    image = _IMAGE.fullmatch(attachment.image or "")
    if image is None:
        text = (attachment.text or "").encode()
        return AttachmentContent(media_type="text/plain; charset=utf-8", body=text)
    return AttachmentContent(media_type=image[1], body=base64.b64decode(image[2]))


def has_image(parts: Sequence[Part]) -> bool:
    """Whether a message has an image."""
    return any(part.get("type") == "image_url" for part in parts)


def text_of(parts: Sequence[Part]) -> str:
    """A message without its images, which stay there by name."""
    return "\n\n".join(str(part["text"]) for part in parts if part.get("type") == "text")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
