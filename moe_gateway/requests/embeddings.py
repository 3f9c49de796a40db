"""Embeddings in the requested encoding, whatever encoding the server uses."""

import base64
import sys
from array import array
from collections.abc import Callable
from typing import Final

import orjson

BASE64: Final = b'"base64"'


def as_asked(body: bytes) -> Callable[[bytes], bytes]:
    """Return a function that converts the server's answer to the format of this request.

    The official node client always requests base64, and does not accept a list of numbers.
    """
    if BASE64 in body and orjson.loads(body).get("encoding_format") == "base64":
        return _in_base64
    return bytes


def _in_base64(answer: bytes) -> bytes:
    """Each list of numbers as the base64 of its 32-bit floats, little end first."""
    found = orjson.loads(answer)
    data = found.get("data")
    entries = [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []
    lists = [one for one in entries if isinstance(one.get("embedding"), list)]
    for one in lists:
        one["embedding"] = base64.b64encode(_floats(one["embedding"])).decode()
    return orjson.dumps(found) if lists else answer


def _floats(numbers: list[float]) -> bytes:
    packed = array("f", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
