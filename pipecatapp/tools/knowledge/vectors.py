"""Vectors of passages as bytes: 8 bits for each number, and one scale for each vector.

A quarter of the memory of 32-bit floats; the error of a cosine is below 0.005. The agent imports
this module with the first vector: numpy takes a tenth of a second.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
STEPS: Final = 127
BLOCK: Final = 1024
"""Vectors that are compared at once: they stay in the cache of a processor, and numpy uses one
thread for them. With 8,192, it waits for other threads: 60 instead of 13 ms on a busy machine.
"""
SCALE_BYTES: Final = 4


def normalized(numbers: Sequence[float]) -> Floats:
    """Return a vector of length 1. Raises `ValueError` for one without a direction."""
    vector = np.asarray(numbers, dtype=np.float32)
    length = float(np.linalg.norm(vector))
    if vector.ndim != 1 or not np.isfinite(length) or length == 0:
        raise ValueError("the expert returned a vector without a direction")
    return (vector / np.float32(length)).astype(np.float32)


def packed(numbers: Sequence[float]) -> bytes:
    """Return the vector with length 1 as its scale and one signed byte for each number.

    Raises `ValueError` for one without a direction.
    """
    vector = normalized(numbers)
    scale = np.float32(np.max(np.abs(vector)) / STEPS)
    steps = np.rint(vector / scale).astype(np.int8)
    data: bytes = scale.astype("<f4").tobytes() + steps.tobytes()
    return data


def mean(vectors: Sequence[Sequence[float]]) -> bytes:
    """Return the mean of vectors with length 1 as 32-bit floats."""
    total = np.mean([normalized(one) for one in vectors], axis=0)
    packed: bytes = np.asarray(total, dtype="<f4").tobytes()
    return packed


def product(mean: bytes, query: Floats) -> float:
    """Return the scalar product with such a mean; 0 if it has another size."""
    stored = np.frombuffer(mean, dtype="<f4")
    return float(stored @ query) if len(stored) == len(query) else 0.0


class Matrix:
    """The vectors of a source with the ids of their passages."""

    def __init__(self, rows: list[tuple[int, bytes]], size: int) -> None:
        """`rows`: passage and packed vector; `size`: numbers of a vector."""
        length = SCALE_BYTES + size
        whole = b"".join(data for _, data in rows if len(data) == length)
        table = np.frombuffer(whole, dtype=np.uint8).reshape(-1, length)
        self._scales = np.ascontiguousarray(table[:, :SCALE_BYTES]).view("<f4").reshape(-1)
        self._steps = np.ascontiguousarray(table[:, SCALE_BYTES:]).view(np.int8)
        self._ids = np.asarray([id for id, data in rows if len(data) == length], dtype=np.int64)

    def nearest(self, query: Floats, limit: int) -> list[tuple[int, float]]:
        """Return the passages with the largest cosines, the best first."""
        if not len(self._ids) or self._steps.shape[1] != len(query):
            return []
        cosines = np.empty(len(self._ids), dtype=np.float32)
        for start in range(0, len(cosines), BLOCK):
            part = slice(start, start + BLOCK)
            cosines[part] = self._steps[part].astype(np.float32) @ query
        cosines *= self._scales
        count = min(limit, len(cosines))
        best = np.argpartition(-cosines, count - 1)[:count]
        order = best[np.argsort(-cosines[best], kind="stable")]
        return [(int(self._ids[row]), float(cosines[row])) for row in order]
