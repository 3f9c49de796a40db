"""A model with fewer layers: the same tokens and templates at a small part of the cost.

For tests of prompts and caches, where it does not matter what the model says. The file format is
GGUF, version 3 (ggml, `docs/gguf.md`).
"""

import io
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

MAGIC: Final = b"GGUF"
BLOCK_COUNT: Final = b".block_count"
ALIGNMENT: Final = 32
"""Bytes; the default of the format. Another one in the metadata is refused."""
SIZES: Final = (1, 1, 2, 2, 4, 4, 4, 1, None, None, 8, 8, 8)
"""Bytes of a metadata value by its type; strings (8) and arrays (9) have none."""
STRING: Final = 8
ARRAY: Final = 9


@dataclass(frozen=True)
class Tensor:
    """One entry of the tensor table; `offset` is counted from the begin of the data."""

    name: bytes
    shape: bytes
    offset: int


def keep_layers(source: Path, target: Path, layers: int) -> None:
    """Write the model at `source` with only its first `layers` layers to `target`.

    Raises `ValueError` if the file is not GGUF 3 with the default alignment.
    """
    with source.open("rb") as file:
        magic, version, tensor_count, value_count = struct.unpack("<4sIQQ", file.read(24))
        if magic != MAGIC or version != 3:
            raise ValueError(f"{source} is not a GGUF file of version 3.")
        values = [_value(file, layers) for _ in range(value_count)]
        tensors = [_tensor(file) for _ in range(tensor_count)]
        begin = _aligned(file.tell())
        ends = sorted([*(tensor.offset for tensor in tensors), source.stat().st_size - begin])
        table, data = io.BytesIO(), io.BytesIO()
        kept = [tensor for tensor in tensors if _layer(tensor.name) < layers]
        for tensor in kept:
            data.write(b"\0" * (_aligned(data.tell()) - data.tell()))
            table.write(struct.pack("<Q", len(tensor.name)) + tensor.name + tensor.shape)
            table.write(struct.pack("<Q", data.tell()))
            file.seek(begin + tensor.offset)
            data.write(file.read(ends[ends.index(tensor.offset) + 1] - tensor.offset))
    head = struct.pack("<4sIQQ", MAGIC, version, len(kept), value_count)
    head += b"".join(values) + table.getvalue()
    target.write_bytes(head + b"\0" * (_aligned(len(head)) - len(head)) + data.getvalue())


def _value(file: BinaryIO, layers: int) -> bytes:
    """The bytes of one metadata value with its key, changed if it is the number of layers."""
    key = _string(file)
    kind = file.read(4)
    value = _plain(file, struct.unpack("<I", kind)[0])
    if key.endswith(BLOCK_COUNT):
        value = struct.pack("<I", layers)
    if key.endswith(b"general.alignment"):
        raise ValueError("A GGUF file with an alignment of its own is not supported.")
    return key + kind + value


def _plain(file: BinaryIO, kind: int) -> bytes:
    if kind == STRING:
        return _string(file)
    if kind != ARRAY:
        return file.read(SIZES[kind] or 0)
    head = file.read(12)
    inner, count = struct.unpack("<IQ", head)
    if size := SIZES[inner]:
        return head + file.read(size * count)
    return head + b"".join(_plain(file, inner) for _ in range(count))


def _string(file: BinaryIO) -> bytes:
    length = file.read(8)
    return length + file.read(struct.unpack("<Q", length)[0])


def _tensor(file: BinaryIO) -> Tensor:
    name = _string(file)[8:]
    count = file.read(4)
    shape = count + file.read(8 * struct.unpack("<I", count)[0] + 4)
    return Tensor(name, shape, struct.unpack("<Q", file.read(8))[0])


def _layer(name: bytes) -> int:
    """The layer that a tensor belongs to; -1 for those of the whole model."""
    return int(name.split(b".")[1]) if name.startswith(b"blk.") else -1


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT
