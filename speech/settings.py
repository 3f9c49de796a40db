"""Every setting of a speech service. Nothing else in this package reads the environment."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from hearth.service.names import SPEECH_STT, SPEECH_TTS
from hearth.service.settings import TlsSettings

Duty = Literal["stt", "tts"]


class Settings(TlsSettings):
    """Read once at start. One process has one task: speech-to-text (`stt`) or text-to-speech
    (`tts`)."""

    model_config = SettingsConfigDict(env_prefix="SPEECH_", frozen=True)

    duty: Duty = Field(description="`stt` for speech-to-text, `tts` for text-to-speech.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(ge=1, le=65535, description="TCP port to listen on.")
    key_files: Annotated[list[Path], Field(min_length=1)] = Field(
        description="Files with the keys that callers may use."
    )
    model: str = Field(
        description="Name of a speech model of the catalogue, which determines the engine."
    )
    model_dir: Path = Field(description="Directory of the model files, one folder per model.")
    catalogue: Path | None = Field(
        None, description="Path of a catalogue to use instead of Hearth's."
    )
    language: str | None = Field(
        None,
        description="Language of requests that do not name one, such as `de`; default: the"
        " model's only language, or detected by a multilingual model.",
    )
    threads: int = Field(
        2, ge=1, description="Processor threads for speech-to-text; Moonshine ignores this."
    )
    whisper_server: Path | None = Field(
        None, description="The server of whisper.cpp; without it, the one on PATH."
    )
    engine_bytes: int | None = Field(
        None,
        gt=0,
        description="Memory of an engine in bytes above which its process is replaced between two"
        " requests; default: twice the value in the catalogue.",
    )
    max_audio_seconds: float = Field(
        600,
        gt=0,
        description="Maximum length of one recording in seconds; longer ones are refused with 413.",
    )
    max_body_bytes: int = Field(
        26_214_400,
        gt=0,
        description="Maximum bytes of a request body; larger ones are refused with 413.",
    )
    max_waiting: int = Field(
        8, ge=0, description="Requests that may wait for the engine; more are refused with 503."
    )
    drain_seconds: int = Field(
        10, ge=0, description="Seconds for active requests and runs to end after SIGTERM."
    )

    @property
    def name(self) -> str:
        """The service's name in the registry."""
        return SPEECH_STT if self.duty == "stt" else SPEECH_TTS


def engine_environment() -> dict[str, str]:
    """Of an engine in its own process: ours, with one heap for all threads, and no way to a hub."""
    return os.environ | {
        "MALLOC_ARENA_MAX": "2", "OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
