"""How values lie in a column: JSON, or the name of a blob when they are large."""

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
    """One text for one value: sorted keys, no spaces, ASCII.

    Refuses what JSON cannot say (ValueError).
    """
    return _CANONICAL.encode(value)


def pack(value: object, *, inline: int = INLINE) -> tuple[str, list[Statement]]:
    """The text for the column, and what to write beside it.

    Objects keep the order of their keys: a value must read the same before and after a restart.
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
    """The value of a JSON text. A half character (a lone surrogate, which ledgers hold that were
    written before such were refused, and nobody could be sent) becomes a question mark.
    """
    value = json.loads(text, **how)
    if "\\u" not in text:
        return value
    return json.loads(clean(json.dumps(value, ensure_ascii=False)))


def clean(text: str) -> str:
    """Text that a text column can hold: lone surrogates, which models do write, become `?`."""
    return text.encode("utf-8", "replace").decode()
