"""Every setting of an expert. Nothing else in this package reads the environment."""

import os
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Self

from pydantic import AnyHttpUrl, Field, model_validator
from pydantic_settings import SettingsConfigDict

from hearth.service.settings import StrictSettings
from hearth.settings import Backend, Engine

FOREIGN = ("LLAMA_ARG_", "LLAMA_API_KEY", "CONSUL_", "NOMAD_TOKEN")
"""Prefixes of variables that engines must not inherit: settings that would override ours, and
variables of other programs."""


Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]*$", max_length=100)]
"""One entry of a list that is stored in Consul with commas."""


class Settings(StrictSettings):
    """Read by the launcher and, with the same environment, by the engine process it starts."""

    model_config = SettingsConfigDict(env_prefix="LLAMA_EXPERT_", frozen=True)

    name: str = Field(description="Name of the expert in logs and in discovery.")
    host: IPv4Address = Field(IPv4Address("127.0.0.1"), description="Address to listen on.")
    port: int = Field(ge=1, le=65535, description="TCP port to listen on.")
    models: Annotated[list[str], Field(min_length=1)] = Field(
        description="Models of the catalogue, best first; the first one that fits and works is"
        " served."
    )
    model_dir: Path = Field(description="Directory of the model files, one folder per model.")
    catalogue: Path | None = Field(
        None, description="Path of a catalogue to use instead of Hearth's."
    )
    engine: Engine = Field("xllamacpp", description="The llama.cpp build that serves the model.")
    llama_server_binary: Path | None = Field(
        None, description="The llama-server program; without it, the one on PATH."
    )
    key_file: Path = Field(description="File with the key that callers must send.")
    context: int | None = Field(
        None, ge=512, description="Context size in tokens; without it, the catalogue's."
    )
    slots: int = Field(4, ge=1, le=64, description="Maximum number of concurrent requests.")
    threads: int | None = Field(
        None, ge=1, description="Processor threads; without it, one less than the physical cores."
    )
    load_timeout: float = Field(
        900, gt=0, description="Maximum seconds until a model answers after its start."
    )
    drain_seconds: float = Field(
        0, ge=0, description="Seconds for active requests to end after a stop."
    )
    backend: Backend = Field(
        "cpu",
        description="Hardware for which llama-server was compiled; the model uses its memory.",
    )
    aliases: tuple[Word, ...] = Field((), description="Other names of the expert, for discovery.")
    cost: float = Field(
        1.0, gt=0, description="Cost of a token relative to the tokens of other experts."
    )
    languages: tuple[Word, ...] = Field(
        (), description="Languages of the model (`de`), for discovery; empty: any."
    )
    domains: tuple[Word, ...] = Field(
        (), description="Domains of the expert, such as `code`, for discovery; empty: all."
    )
    fallback: tuple[Word, ...] = Field(
        (), description="Experts that answer instead if it cannot, for discovery."
    )
    auto: bool = Field(
        default=True, description="It may be selected for the model `auto`, for discovery."
    )
    rpc: bool = Field(
        default=False,
        description="Distribute the model over the healthy instances of `llama-rpc` in Consul.",
    )
    consul_url: AnyHttpUrl | None = Field(
        None, description="Consul agent of this machine, with which the expert registers its model."
    )
    consul_token_file: Path | None = Field(None, description="File with the token for Consul.")
    consul_ca_file: Path | None = Field(None, description="Certificate authority (PEM) of Consul.")
    metrics_port: int | None = Field(
        None, ge=1, le=65535, description="TCP port of the launcher's `/metrics`."
    )

    @model_validator(mode="after")
    def _can_spread(self) -> Self:
        if self.rpc and (self.consul_url is None or self.engine != "llama-server"):
            raise ValueError("rpc needs the engine llama-server and a consul_url")
        return self


def engine_environment() -> dict[str, str]:
    """The environment for the engine process: ours, without what would override our settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
