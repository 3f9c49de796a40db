"""Storage of values in a column: JSON, or the name of a blob for large values."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

Statement = tuple[str, tuple[Any, ...]]

INLINE = 8 * 1024
"""Maximum characters of JSON stored in the row itself, which is rewritten at each change."""

_BLOB = "@sha256:"

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
    body = text.encode()
    name = hashlib.sha256(body).hexdigest()
    statement = "INSERT OR IGNORE INTO blob (sha256, size, body) VALUES (?, ?, ?)"
    return _BLOB + name, [(statement, (name, len(body), body))]


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
