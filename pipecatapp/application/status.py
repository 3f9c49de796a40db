"""The state of an instance: machines, services, experts, what is down, and what limits programs."""

from functools import lru_cache
from typing import Literal

from pydantic import BaseModel

from pipecatapp.sandbox import SandboxUnusable
from pipecatapp.sandbox.sandbox import limited_by
from pipecatapp.tools.cluster.causes import Cause, causes
from pipecatapp.tools.cluster.directory import Directory
from pipecatapp.tools.cluster.status import ClusterStatus, whole

__all__ = ["Cause", "ClusterStatus", "Directory", "ProgramStatus", "causes", "programs", "whole"]


class ProgramStatus(BaseModel):
    """How the memory of programs is limited here; `detail` is the reason why none can be run."""

    mode: Literal["cgroup", "watched", "refused"]
    detail: str = ""


@lru_cache(1)
def programs() -> ProgramStatus:
    """Find out what limits programs on this machine. Blocks for a moment the first time."""
    try:
        return ProgramStatus(mode=limited_by())
    except SandboxUnusable as error:
        return ProgramStatus(mode="refused", detail=str(error))
