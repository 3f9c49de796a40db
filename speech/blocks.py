"""Bytes through a pipe as blocks: each with its length in four bytes (big endian) before it.

For processes of engines, which load nothing else of ours. An empty block ends an answer.
"""

import sys
from typing import BinaryIO


def standard_pipe() -> tuple[BinaryIO, BinaryIO]:
    """Return the input and output of blocks; output of libraries goes to standard error instead."""
    out, sys.stdout = sys.stdout.buffer, sys.stderr
    return sys.stdin.buffer, out


def read(source: BinaryIO) -> bytes | None:
    """The next block; None when the other end has left."""
    head = source.read(4)
    if len(head) < 4:
        return None
    return source.read(int.from_bytes(head, "big"))


def write(out: BinaryIO, block: bytes) -> None:
    """One block with its length before it."""
    out.write(packed(block))
    out.flush()


def packed(block: bytes) -> bytes:
    return len(block).to_bytes(4, "big") + block
