"""Every setting of the expert for embeddings. Nothing else here reads the environment."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from hearth.service.names import DEFAULT_PORT_BASE, EMBEDDINGS, port_of
from hearth.service.settings import StrictSettings


class Settings(StrictSettings):
    """Read once at start."""

    model_config = SettingsConfigDict(env_prefix="EMBEDDINGS_", frozen=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(
        port_of(EMBEDDINGS, DEFAULT_PORT_BASE), ge=1, le=65535, description="TCP port to listen on."
    )
    key_file: Path = Field(description="File with the key that callers must send.")
    max_body_bytes: int = Field(
        4 * 1024 * 1024,
        gt=0,
        description="Maximum bytes of a request body; larger ones are refused with 413.",
    )
    drain_seconds: int = Field(
        10, ge=0, description="Seconds for active requests to end after SIGTERM."
    )
