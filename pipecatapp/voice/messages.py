"""Messages between the browser, this service and its worker; audio is sent as binary messages.

Audio of the user: signed 16 bit, little endian, one channel, `HEARD_RATE` samples a second. Audio
of the agent: the same at `SPOKEN_RATE`. Everything else is a JSON object with a `type`.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from pipecatapp.voice.manners import Manners

HEARD_RATE: Final = 16_000
SPOKEN_RATE: Final = 24_000
LONGEST_TEXT: Final = 4000
LONGEST_OFFER: Final = 100_000
"""Characters of a WebRTC offer; one of a browser with many network cards has 10,000."""

CANNOT_ANSWER: Final = "Sorry, I cannot answer at the moment."
CANNOT_HEAR: Final = "Sorry, I cannot understand you at the moment."


class Part(BaseModel):
    """One message; keys that it does not know are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Name = Annotated[str, Field(min_length=1, max_length=200)]


class Hello(Part):
    """The first message of a browser. `echo_cancelled`: its microphone does not hear us.

    `model` and `voice` are those of `GET /api/voice`. With `offer`, an SDP, sound goes by WebRTC.
    """

    type: Literal["hello"]
    conversation: Name | None = None
    echo_cancelled: bool = False
    model: Name = "agent"
    voice: Name = "default"
    offer: Annotated[str, Field(min_length=1, max_length=LONGEST_OFFER)] | None = None


class Typed(Part):
    """A turn that was typed and not spoken."""

    type: Literal["text"]
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]


class Quiet(Part):
    """Stop speaking."""

    type: Literal["quiet"]


class Clear(Part):
    """Start a new conversation."""

    type: Literal["clear"]


class Choose(Part):
    """Answer with this model, speak with this voice, from the next turn on."""

    type: Literal["choose"]
    model: Name | None = None
    voice: Name | None = None


class Wake(Part):
    """Listen now, as after a wake word."""

    type: Literal["wake"]


Said = Hello | Typed | Quiet | Clear | Choose | Wake
FROM_PERSON: Final[TypeAdapter[Said]] = TypeAdapter(Annotated[Said, Field(discriminator="type")])


class Setup(Part):
    """The first message to the worker: where the engines are, and how to listen."""

    type: Literal["setup"] = "setup"
    stt: str
    tts: str
    key: str
    ca_file: str | None = None
    half_duplex: bool = True
    spoken_rate: int = SPOKEN_RATE
    manners: Manners = Manners()
    idle_seconds: float = 900.0
    voice: str = "default"
    offer: str | None = None


Json = dict[str, Any]
