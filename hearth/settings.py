"""Settings that the `hearth` command reads from the environment."""

import os
from pathlib import Path
from typing import Literal

from pydantic import AnyHttpUrl, Field, field_validator
from pydantic_settings import SettingsConfigDict

from hearth.service.settings import StrictSettings

Engine = Literal["xllamacpp", "llama-cpp-python", "llama-server"]
Backend = Literal["cpu", "cuda", "rocm", "vulkan"]


def default_state_dir() -> Path:
    """`$XDG_DATA_HOME/hearth`, else `~/.local/share/hearth` (XDG Base Directory spec 0.8)."""
    data_home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data_home) / "hearth"


class Settings(StrictSettings):
    """Read once by the command line; every field is also an option of `hearth up`."""

    model_config = SettingsConfigDict(env_prefix="HEARTH_", frozen=True)

    state_dir: Path = Field(
        default_factory=default_state_dir,
        description="Directory for the keys, models, runs and logs of one instance.",
    )
    port_base: int = Field(
        8000, ge=1024, le=65000, description="First port; the others are counted from it."
    )
    engine: Engine = Field("xllamacpp", description="Which llama.cpp build serves the model.")
    catalogue: Path | None = Field(
        None, description="Another model catalogue than the one that came with Hearth."
    )
    speech: bool = Field(
        default=True,
        description="Also start speech-to-text and text-to-speech, which "
        "need half a gigabyte of memory.",
    )
    stt_model: str = Field(
        "moonshine-tiny-en", description="The catalogue's model that hears; it names its engine."
    )
    tts_model: str = Field("en-us-joe", description="The catalogue's voice that speaks.")
    speech_language: str | None = Field(
        None,
        description="Language of speech, such as `de`. Default: the languages of the models.",
    )
    llama_server_binary: Path | None = Field(
        None, description="The llama-server program; without it, the one on PATH."
    )
    nomad_binary: Path | None = Field(
        None,
        description="The Nomad program that tests and the lab use; without it, the one on PATH.",
    )
    consul_binary: Path | None = Field(
        None,
        description="The Consul program that tests and the lab use; without it, the one on PATH, "
        "else the one that `python -m tests.binaries.consul` compiles.",
    )
    cluster_url: AnyHttpUrl | None = Field(
        None,
        description="The web page of a cluster: `hearth status`, `backup` and `restore` mean it"
        " instead of the instance on this machine.",
    )
    cluster_key_file: Path | None = Field(None, description="File with the key of that cluster.")
    cluster_ca_file: Path | None = Field(
        None, description="The authority (PEM) that certified it; without it, those of the system."
    )
    lab_dir: Path = Field(
        Path("/var/lib/hearth/lab"), description="Where `hearth lab` keeps its hosts."
    )
    lab_name: str = Field(
        "lab",
        description="Which lab `hearth lab` and `bootstrap.sh -i inventory/lab.yaml` mean; "
        "set by `hearth lab exec`.",
    )
    lab_key: Path | None = Field(
        None, description="The ssh key of a lab's hosts; set by `hearth lab exec`."
    )
    lab_mirror: str | None = Field(
        None, description="Debian mirror of a lab's hosts; without it, those of this machine's apt."
    )
    lab_base: Path | None = Field(
        None, description="The tree that a lab's hosts begin with; set by `hearth lab exec`."
    )
    vault_password_file: Path | None = Field(
        None,
        description="File with the password of the cluster's secrets; without it, "
        "bootstrap.sh asks.",
    )
    test_cache: Path | None = Field(
        None,
        description="Where the tests keep what takes long to make; without it, `hearth-tests` in"
        " the user's caches.",
    )
    test_strict: bool = Field(
        default=False, description="Every skipped test is a failure; set by continuous integration."
    )

    @field_validator("state_dir")
    @classmethod
    def _is_one_place(cls, folder: Path) -> Path:
        """Expand `~` and make the path absolute, because not every caller uses a shell."""
        return folder.expanduser().absolute()
