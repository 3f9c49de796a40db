"""What the `hearth` command itself takes from the environment."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from hearth.service.settings import StrictSettings

Engine = Literal["xllamacpp", "llama-cpp-python", "llama-server"]


def default_state_dir() -> Path:
    """`$XDG_DATA_HOME/hearth`, else `~/.local/share/hearth` (XDG Base Directory spec 0.8)."""
    data_home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data_home) / "hearth"


class Settings(StrictSettings):
    """Read once by the command line; every field is also an option of `hearth up`."""

    model_config = SettingsConfigDict(env_prefix="HEARTH_", frozen=True)

    state_dir: Path = Field(
        default_factory=default_state_dir,
        description="Where keys, models, runs and logs of one instance are kept.",
    )
    port_base: int = Field(
        8000, ge=1024, le=65000, description="First port; the others are counted from it."
    )
    engine: Engine = Field("xllamacpp", description="Which llama.cpp build serves the model.")
    llama_server_binary: Path | None = Field(
        None, description="The llama-server program; without it, the one on PATH."
    )
    nomad_binary: Path | None = Field(None, description="The Nomad program that tests run.")
    test_strict: bool = Field(
        default=False, description="Every skipped test is a failure; set by continuous integration."
    )
