"""The job of an engine: the model to serve, and how."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from hearth.models.catalogue import Model
from hearth.models.store import ModelStore
from hearth.service.settings import read_key
from llama_expert.settings import Settings

PROMPT_CACHE_MIB = 256
"""Room for conversations that lost their slot; llama.cpp's own 8 GiB are not in `ram_bytes`."""


class EngineMissing(Exception):
    """Install what the message names, or choose another engine."""


class EngineFailed(Exception):
    """The engine cannot serve this model; its output is in the log above."""


@dataclass(frozen=True)
class Job:
    """One model on one address. Context is per caller: an engine makes room for all slots."""

    model: Model
    path: Path
    host: str
    port: int
    key_file: Path
    context: int
    slots: int
    threads: int
    llama_server_binary: Path | None
    workers: tuple[str, ...] = ()
    """Addresses (host:port) of the RPC workers that take a part of the model."""

    @classmethod
    def of(cls, settings: Settings, model: Model, workers: Sequence[str] = ()) -> Self:
        """The job that the settings describe, for one model of the list."""
        return cls(
            model=model,
            path=ModelStore(settings.model_dir).path(model).resolve(),
            host=str(settings.host),
            port=settings.port,
            key_file=settings.key_file,
            context=settings.context or model.context,
            slots=settings.slots,
            threads=settings.threads or threads_beside_others(),
            llama_server_binary=settings.llama_server_binary,
            workers=tuple(workers),
        )

    @property
    def key(self) -> str:
        """The key that callers must show."""
        return read_key(self.key_file)


def threads_beside_others() -> int:
    """One less than there are cores, where there are several.

    The threads of llama.cpp wait for each other many hundred times a word, and spin meanwhile. With
    one on each core, a single other busy process makes an answer fifty times slower.
    """
    return max(1, physical_cores() - 1)


def physical_cores() -> int:
    """Cores, not hyper-threads, that this process may use: more threads slow llama.cpp down."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(psutil.cpu_count(logical=False) or 1, allowed or 1))
