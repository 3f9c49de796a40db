"""What we tell of ourselves when a Wyoming client asks."""

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

HEARTH: Final = Attribution(name="Hearth", url="https://www.home-assistant.io/integrations/wyoming")
LANGUAGES: Final = ["en"]


def description() -> Info:
    """Speech to text, text to speech and the agent: what a pipeline of Assist is made of.

    Wake words are found in conversations; as a service of its own they are not offered.
    """
    return Info(
        asr=[
            AsrProgram(
                **told("hearth", "What Hearth hears with"),
                models=[AsrModel(**told("speech-stt", "speech-stt"), languages=LANGUAGES)],
            )
        ],
        tts=[
            TtsProgram(
                **told("hearth", "What Hearth speaks with"),
                voices=[TtsVoice(**told("default", "Hearth's voice"), languages=LANGUAGES)],
                supports_synthesize_streaming=True,
            )
        ],
        handle=[
            HandleProgram(
                **told("hearth", "Hearth's agent"),
                models=[HandleModel(**told("agent", "agent-turn"), languages=LANGUAGES)],
            )
        ],
    )


class Told(TypedDict):
    """What is told of every program and model."""

    name: str
    description: str
    version: str
    attribution: Attribution
    installed: bool


def told(name: str, what: str) -> Told:
    """One of them."""
    return Told(
        name=name, description=what, version=hearth_version(), attribution=HEARTH, installed=True
    )
