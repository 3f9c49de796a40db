"""The most that a program may be allowed on this machine."""

from pydantic import BaseModel, ConfigDict, Field


class Ceiling(BaseModel):
    """Upper bounds for the limits of every program, whether a document or an agent starts it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: float = Field(default=3600, gt=0, le=3600)
    memory_mb: int = Field(default=4096, ge=16, le=65536)
    processes: int = Field(default=512, ge=1, le=4096)
    disk_mb: int = Field(default=8192, ge=1, le=65536)
