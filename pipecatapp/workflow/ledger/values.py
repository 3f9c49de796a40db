"""Storage of values in a column: JSON, or the name of a blob for large values.

The content of a data URL (RFC 2397), such as an image, is stored as a separate blob, a part. The
JSON has the hash of the part in its place. So a conversation with an image, which each model call
receives completely, stores the image once.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

Statement = tuple[str, tuple[Any, ...]]

INLINE = 8 * 1024
"""Maximum characters of JSON stored in the row itself, which is rewritten at each change."""

PART = 4 * 1024
"""Characters of base64 from which the content of a data URL is a part."""

_BLOB = "@sha256:"
_REFERENCE = f";base64,{_BLOB}"
_CONTENT = re.compile(rf"(?<=;base64,)[A-Za-z0-9+/]{{{PART},}}={{0,2}}")
_INSERT = "INSERT OR IGNORE INTO blob (sha256, size, body) VALUES (?, ?, ?)"
_INSERT_PART = "INSERT OR IGNORE INTO blob_part (blob, part) VALUES (?, ?)"

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_PLAIN = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def canonical(value: object) -> str:
    """Return a unique text for a value: sorted keys, no spaces, ASCII.

    Raises ValueError for values that JSON cannot represent.
    """
    return _CANONICAL.encode(value)


def pack(value: object, *, inline: int = INLINE) -> tuple[str, list[Statement]]:
    """Return the text for the column, and the statements for a blob.

    Objects keep the order of their keys: a value must be the same before and after a restart.
    """
    text = _PLAIN.encode(value)
    if len(text) <= inline:
        return text, []
    statements: list[Statement] = []
    parts = dict[str, None]()

    def put_aside(found: re.Match[str]) -> str:
        part, statement = _blob(found[0])
        if part not in parts:
            parts[part] = None
            statements.append(statement)
        return _BLOB + part

    if _REFERENCE not in text:  # else a text of a person would read as a reference
        text = _CONTENT.sub(put_aside, text)
    name, statement = _blob(text)
    links = [(_INSERT_PART, (name, part)) for part in parts]
    return _BLOB + name, [*statements, statement, *links]


def _blob(text: str) -> tuple[str, Statement]:
    """The name of a blob, and what writes it."""
    body = text.encode()
    name = hashlib.sha256(body).hexdigest()
    return name, (_INSERT, (name, len(body), body))


def joined(body: bytes, parts: Mapping[str, bytes]) -> bytes:
    """The JSON of a blob with its parts, which are given by name, in their places."""
    for name, part in parts.items():
        body = body.replace(f"{_REFERENCE}{name}".encode(), b";base64," + part)
    return body


def unpack(text: str | None, blob: Callable[[str], bytes]) -> Any:
    """The value again; None for an empty column."""
    if text is None:
        return None
    return read_json(blob(text.removeprefix(_BLOB)).decode() if text.startswith(_BLOB) else text)


def read_json(text: str, **how: Any) -> Any:
    """Parse a JSON text. Half a character (a lone surrogate, which only old ledgers contain and
    which cannot be sent) becomes a question mark.
    """
    value = json.loads(text, **how)
    if "\\u" not in text:
        return value
    return json.loads(clean(json.dumps(value, ensure_ascii=False)))


def clean(text: str) -> str:
    """Text that a text column can hold: lone surrogates, which models do write, become `?`."""
    return text.encode("utf-8", "replace").decode()
