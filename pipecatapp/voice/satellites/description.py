"""The description of this service for Wyoming clients."""

from collections.abc import Sequence
from typing import Final, TypedDict

from wyoming.info import (
    AsrModel,
    AsrProgram,
    Attribution,
    HandleModel,
    HandleProgram,
    Info,
    TtsProgram,
    TtsVoice,
)

from hearth.service.version import hearth_version
from pipecatapp.voice.messages import Json

HEARTH: Final = Attribution(name="Hearth", url="https://www.home-assistant.io/integrations/wyoming")
UNHEARD: Final = ["en"]
"""Language of the agent if there is no speech-to-text: that of its prompts."""


def description(languages: Sequence[str], voices: Sequence[Json]) -> Info:
    """Describe speech-to-text, text-to-speech and the agent, the steps of a pipeline of Assist.
    `languages` are those of speech-to-text, `voices` those of text-to-speech; a step without any is
    not offered.

    Wake words are detected in conversations; they are not offered as a separate service.
    """
    hears = AsrModel(**program_info("speech-stt", "speech-stt"), languages=list(languages))
    speaks = [
        TtsVoice(
            **program_info(str(voice["id"]), str(voice["id"])), languages=[str(voice["language"])]
        )
        for voice in voices
    ]
    answers = HandleModel(
        **program_info("agent", "agent-turn"), languages=list(languages) or UNHEARD
    )
    asr = AsrProgram(**program_info("hearth", "Hearth's speech-to-text"), models=[hears])
    tts = TtsProgram(
        **program_info("hearth", "Hearth's text-to-speech"), voices=speaks,
        supports_synthesize_streaming=True,
    )  # fmt: skip
    handle = HandleProgram(**program_info("hearth", "Hearth's agent"), models=[answers])
    return Info(asr=[asr] if languages else [], tts=[tts] if speaks else [], handle=[handle])


class ProgramInfo(TypedDict):
    """Fields of every program and model."""

    name: str
    description: str
    version: str
    attribution: Attribution
    installed: bool


def program_info(name: str, what: str) -> ProgramInfo:
    """One of them."""
    return ProgramInfo(
        name=name, description=what, version=hearth_version(), attribution=HEARTH, installed=True
    )
