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
        8000, ge=1024, le=65000, description="First port; the other ports are relative to it."
    )
    engine: Engine = Field("xllamacpp", description="The llama.cpp build that serves the model.")
    catalogue: Path | None = Field(
        None, description="Path of a model catalogue to use instead of Hearth's."
    )
    speech: bool = Field(
        default=True,
        description="Also start speech-to-text and text-to-speech, which "
        "need half a gigabyte of memory.",
    )
    stt_model: str = Field(
        "moonshine-tiny-en",
        description="Speech-to-text model of the catalogue, which determines the engine.",
    )
    tts_model: str = Field("en-us-joe", description="Text-to-speech voice of the catalogue.")
    speech_language: str | None = Field(
        None,
        description="Language of speech, such as `de`. Default: the languages of the models.",
    )
    embeddings: bool = Field(
        default=True,
        description="Also start the expert for embeddings, by which `hearth knowledge` finds"
        " passages with the meaning of a question; it needs 150 MB of memory.",
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
        description="Address of a cluster's web page: `hearth status`, `backup` and `restore` use"
        " the cluster instead of the instance on this machine.",
    )
    cluster_key_file: Path | None = Field(None, description="File with the key of that cluster.")
    cluster_ca_file: Path | None = Field(
        None, description="Its certificate authority (PEM); without it, those of the system."
    )
    power_url: AnyHttpUrl | None = Field(
        None, description="Address of the power manager for `hearth power`."
    )
    lab_dir: Path = Field(
        Path("/var/lib/hearth/lab"), description="Directory of the hosts of `hearth lab`."
    )
    lab_name: str = Field(
        "lab",
        description="The lab that `hearth lab` and `bootstrap.sh -i inventory/lab.yaml` use; set"
        " by `hearth lab exec`.",
    )
    lab_key: Path | None = Field(
        None, description="The ssh key of a lab's hosts; set by `hearth lab exec`."
    )
    lab_mirror: str | None = Field(
        None,
        description="Debian mirror for a lab's hosts; without it, those of this machine's apt.",
    )
    lab_ubuntu_mirror: str | None = Field(
        None,
        description="Ubuntu mirror for a lab's hosts; without it, that of this machine's apt, else"
        " the one that debootstrap knows.",
    )
    lab_base: Path | None = Field(
        None, description="The first file tree of a lab's hosts; set by `hearth lab exec`."
    )
    vault_password_file: Path | None = Field(
        None,
        description="File with the password of the cluster's secrets; without it, "
        "bootstrap.sh asks.",
    )
    test_cache: Path | None = Field(
        None,
        description="Cache of the tests for artifacts that take long to build; without it,"
        " `hearth-tests` in the user's caches.",
    )
    test_live_url: str = Field(
        "",
        description="Address of a gateway that runs, such as `https://node1:8080/v1`, for the tests"
        " of `make test-live`.",
    )
    test_live_key_file: Path | None = Field(
        None, description="File of a key of that gateway with the scopes chat and workflows."
    )
    test_strict: bool = Field(
        default=False,
        description="Treat every skipped test as a failure; set by continuous integration.",
    )

    @field_validator("state_dir")
    @classmethod
    def _is_one_place(cls, folder: Path) -> Path:
        """Expand `~` and make the path absolute, because not every caller uses a shell."""
        return folder.expanduser().absolute()
