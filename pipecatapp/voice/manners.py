"""When a microphone is listened to, and what ends a conversation: the same for every transport."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

WakeWord = Literal["okay_nabu", "hey_jarvis", "hey_mycroft", "alexa"]
"""Wake words with a model in the wheel of pymicro-wakeword."""

STOP_WORDS = ("stop", "never mind", "that's all", "be quiet", "goodbye")


class Manners(BaseModel):
    """Wake word, conversation window and stop words of one transport.

    Without a wake word, all speech is a turn. With one, only speech within `window_seconds` after
    it, and then within as many seconds after an answer. A turn that consists only of a stop word
    ends the answer and the window, and is not a question.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    wake_words: tuple[WakeWord, ...] = ()
    window_seconds: Annotated[float, Field(gt=0, le=3600)] = 8.0
    stop_words: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = STOP_WORDS

    def stops(self, text: str) -> bool:
        """Whether that is a stop word and nothing else; case and punctuation do not count."""
        return words(text) in {words(stop) for stop in self.stop_words}


def words(text: str) -> str:
    """The words of a text, without what an engine adds to them."""
    kept = (letter if letter.isalnum() or letter.isspace() else "" for letter in text.lower())
    return " ".join("".join(kept).split())
