"""Metadata of PNG pictures, and other pictures as PNG."""

import io
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
MAX_PIXELS: Final = 64_000_000


class NotAPicture(ValueError):
    """Bytes that are not a valid picture."""


def with_metadata(png: bytes, facts: Mapping[str, str]) -> bytes:
    """Return a PNG with texts in it, in the order of their names; the pixels stay as they are.

    Source: PNG, third edition, section 11.3.3 (tEXt for Latin-1, iTXt for other texts). Texts with
    the same names are replaced. Raises `NotAPicture`.
    """
    parts = []
    for kind, data in _chunks(png):
        named = (
            data.split(b"\0", 1)[0].decode("latin-1") if kind in (b"tEXt", b"iTXt", b"zTXt") else ""
        )
        if named in facts:
            continue
        parts.append(_chunk(kind, data))
        if kind == b"IHDR":
            parts.extend(_text(name, facts[name]) for name in sorted(facts))
    return SIGNATURE + b"".join(parts)


def metadata(png: bytes) -> dict[str, str]:
    """Return the texts of a PNG by their names. Raises `NotAPicture`."""
    found = {}
    for kind, data in _chunks(png):
        name, _, rest = data.partition(b"\0")
        if kind == b"tEXt":
            found[name.decode("latin-1")] = rest.decode("latin-1")
        if kind == b"iTXt" and rest[:1] == b"\0":
            found[name.decode("latin-1")] = rest[2:].split(b"\0", 2)[2].decode("utf-8", "replace")
    return found


def size_of(png: bytes) -> tuple[int, int]:
    """Return width and height. Raises `NotAPicture`."""
    kind, data = next(_chunks(png))
    if kind != b"IHDR" or len(data) != 13:
        raise NotAPicture("The PNG has no header.")
    width, height = struct.unpack(">II", data[:8])
    return width, height


def as_png(data: bytes) -> bytes:
    """Return a PNG, JPEG, WebP or GIF as PNG; a PNG stays as it is. Raises `NotAPicture`."""
    from PIL import Image  # noqa: PLC0415

    try:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP", "GIF")) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise NotAPicture(f"The picture has more than {MAX_PIXELS:,} pixels.")
            picture.load()
            if picture.format == "PNG":
                return data
            written = io.BytesIO()
            picture.convert("RGBA" if picture.has_transparency_data else "RGB").save(written, "PNG")
            return written.getvalue()
    except (
        OSError,
        SyntaxError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ) as error:
        raise NotAPicture("The bytes are not a PNG, JPEG, WebP or GIF picture.") from error


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not png.startswith(SIGNATURE):
        raise NotAPicture("The bytes are not a PNG picture.")
    at = len(SIGNATURE)
    while at < len(png):
        if at + 12 > len(png):
            raise NotAPicture("The PNG picture is cut off.")
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        if len(data) != length:
            raise NotAPicture("The PNG picture is cut off.")
        yield kind, data
        if kind == b"IEND":
            return
        at += length + 12
    raise NotAPicture("The PNG picture is cut off.")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _text(name: str, text: str) -> bytes:
    text = text.replace("\0", "")
    try:
        return _chunk(b"tEXt", name.encode("latin-1") + b"\0" + text.encode("latin-1"))
    except UnicodeEncodeError:
        head = name.encode("latin-1") + b"\0\0\0\0\0"
        return _chunk(b"iTXt", head + text.encode("utf-8", "replace"))
