"""The state of an instance: machines, services, experts, what is down, and what limits programs."""

from functools import lru_cache
from typing import Literal

from pydantic import BaseModel

from pipecatapp.sandbox import SandboxUnusable
from pipecatapp.sandbox.sandbox import limited_by
from pipecatapp.tools.cluster.causes import Cause, causes
from pipecatapp.tools.cluster.directory import Directory, GatewayAway
from pipecatapp.tools.cluster.status import ClusterStatus, whole

__all__ = [
    "Cause",
    "ClusterStatus",
    "Directory",
    "GatewayAway",
    "ProgramStatus",
    "causes",
    "largest_memory",
    "programs",
    "whole",
]


class ProgramStatus(BaseModel):
    """How the memory of programs is limited here; `detail` is the reason why none can be run."""

    mode: Literal["cgroup", "watched", "refused"]
    detail: str = ""


async def largest_memory(directory: Directory) -> int | None:
    """Bytes of memory of the largest known machine; None where no one reports any."""
    machines = await directory.places.machines([])
    known = [one.memory_mb for one in machines if one.memory_mb is not None]
    return max(known) << 20 if known else None


@lru_cache(1)
def programs() -> ProgramStatus:
    """Find out what limits programs on this machine. Blocks for a moment the first time."""
    try:
        return ProgramStatus(mode=limited_by())
    except SandboxUnusable as error:
        return ProgramStatus(mode="refused", detail=str(error))
