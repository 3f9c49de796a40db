"""What a browser, this service and its worker tell each other; sound goes as binary messages.

Sound of the person: signed 16 bit, little endian, one channel, `HEARD_RATE` a second. Sound of the
agent: the same at `SPOKEN_RATE`. Everything else is a JSON object with a `type`.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

HEARD_RATE: Final = 16_000
SPOKEN_RATE: Final = 24_000
LONGEST_TEXT: Final = 4000

CANNOT_ANSWER: Final = "Sorry, I cannot answer at the moment."
CANNOT_HEAR: Final = "Sorry, I cannot understand you at the moment."


class Part(BaseModel):
    """One message; keys that it does not know are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Hello(Part):
    """The first message of a browser. `echo_cancelled`: its microphone does not hear us."""

    type: Literal["hello"]
    conversation: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    echo_cancelled: bool = False


class Typed(Part):
    """A turn that was typed and not spoken."""

    type: Literal["text"]
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]


class Quiet(Part):
    """Stop speaking."""

    type: Literal["quiet"]


class Clear(Part):
    """Begin a new conversation."""

    type: Literal["clear"]


FromPerson = Annotated[Hello | Typed | Quiet | Clear, Field(discriminator="type")]
FROM_PERSON: Final[TypeAdapter[Hello | Typed | Quiet | Clear]] = TypeAdapter(FromPerson)


class Setup(Part):
    """The first message to the worker: where the engines are, and how to listen."""

    type: Literal["setup"] = "setup"
    stt: str
    tts: str
    key: str
    ca_file: str | None = None
    half_duplex: bool = True


Json = dict[str, Any]
