"""The settings of a realtime session, in the shape of OpenAI's Realtime API."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from hearth.openai_api.chat import Function, ToolSpec
from pipecatapp.voice.messages import Json
from pipecatapp.voice.realtime.wire import EventRefused, merged, parsed

LONGEST_INSTRUCTIONS: Final = 100_000
"""Characters."""

MOST_TOOLS: Final = 128


class Part(BaseModel):
    """A part of the settings; a field that OpenAI's API does not define is refused."""

    model_config = ConfigDict(extra="forbid")


class Format(Part):
    """Samples: signed 16 bit, little endian, one channel, 24,000 a second."""

    type: Literal["audio/pcm"] = "audio/pcm"
    rate: Literal[24000] = 24000


class TurnDetection(Part):
    """The server decides when a turn begins and ends. Hearth's own detector has no thresholds, so
    the fields after `interrupt_response` have no effect.
    """

    type: Literal["server_vad", "semantic_vad"] = "server_vad"
    create_response: bool = True
    interrupt_response: bool = True
    threshold: float | None = None
    prefix_padding_ms: int | None = None
    silence_duration_ms: int | None = None
    idle_timeout_ms: int | None = None
    eagerness: str | None = None


class Transcription(Part):
    """Send transcripts of the input. Only `language` has an effect, where the client commits."""

    model: str = "speech-stt"
    language: str | None = None
    prompt: Any = None
    languages: Any = None
    keywords: Any = None
    delay: Any = None


class AudioInput(Part):
    """The audio of the user. `turn_detection` null: the client commits the buffer."""

    format: Format = Format()
    transcription: Transcription | None = Transcription()
    turn_detection: TurnDetection | None = TurnDetection()
    noise_reduction: Any = None


class VoiceId(Part):
    """A voice by its id."""

    id: str


class AudioOutput(Part):
    """The audio of the answer. `speed` has no effect."""

    format: Format = Format()
    voice: str | VoiceId = "default"
    speed: float = 1.0

    @property
    def voice_id(self) -> str:
        """The name of the voice for text-to-speech."""
        return self.voice if isinstance(self.voice, str) else self.voice.id


class Audio(Part):
    """Both directions."""

    input: AudioInput = AudioInput()
    output: AudioOutput = AudioOutput()


class Tool(Part):
    """A function of the client, which the model may call."""

    type: Literal["function"] = "function"
    name: Annotated[str, Field(min_length=1, max_length=200)]
    description: str = ""
    parameters: dict[str, Any] = {}

    def spec(self) -> ToolSpec:
        """The same for a chat completion."""
        function = Function(
            name=self.name, description=self.description, parameters=self.parameters
        )
        return ToolSpec(function=function)


Modalities = Annotated[list[Literal["text", "audio"]], Field(min_length=1, max_length=1)]
Length = Annotated[int, Field(ge=1)] | Literal["inf"]
Instructions = Annotated[str, Field(max_length=LONGEST_INSTRUCTIONS)]
Tools = Annotated[list[Tool], Field(max_length=MOST_TOOLS)]


class Answering(Part):
    """Settings that a session has and that one response can have instead."""

    instructions: Instructions = ""
    output_modalities: Modalities = ["audio"]
    tools: Tools = []
    tool_choice: str | dict[str, Any] = "auto"
    max_output_tokens: Length = "inf"
    parallel_tool_calls: Any = None
    reasoning: Any = None

    @property
    def spoken(self) -> bool:
        """Whether the answer is audio."""
        return self.output_modalities == ["audio"]

    def chat_fields(self) -> Json:
        """The fields of a chat completion that follow from these settings."""
        fields: Json = {}
        if self.tools:
            fields |= {"tools": [tool.spec() for tool in self.tools], "tool_choice": self._choice()}
        if self.max_output_tokens != "inf":
            fields["max_tokens"] = self.max_output_tokens
        return fields

    def _choice(self) -> str | Json:
        if isinstance(self.tool_choice, str):
            return self.tool_choice
        return {"type": "function", "function": {"name": self.tool_choice.get("name")}}


class Session(Answering):
    """All settings of a session; `include`, `tracing` and `truncation` have no effect."""

    type: Literal["realtime"] = "realtime"
    object: Literal["realtime.session"] = "realtime.session"
    id: str = ""
    model: str
    audio: Audio = Audio()
    include: Any = None
    tracing: Any = None
    truncation: Any = "auto"

    def updated(self, changes: Json) -> Self:
        """Return the settings with these changes. Raises `EventRefused`."""
        changed = parsed(type(self), merged(self.model_dump(), changes), within="session")
        if (changed.model, changed.id) != (self.model, self.id):
            raise EventRefused(
                "invalid_value", "The model of a session cannot be changed.", "session.model"
            )
        return changed


class ResponseAudio(Part):
    """The audio of one response."""

    output: AudioOutput = AudioOutput()


class ResponseSettings(Answering):
    """The settings of one response. With `input` it answers these items and not the conversation;
    with `conversation` none it is not added to the conversation.
    """

    audio: ResponseAudio = ResponseAudio()
    conversation: Literal["auto", "none"] | None = "auto"
    input: list[dict[str, Any]] | None = None
    metadata: dict[str, str] | None = None

    @classmethod
    def of(cls, session: Session, changes: Json) -> Self:
        """Return those of the session with the changes of one response. Raises `EventRefused`."""
        common = session.model_dump(include=set(Answering.model_fields))
        common["audio"] = {"output": session.audio.output.model_dump()}
        return parsed(cls, merged(common, changes), within="response")
