"""Wake words: found when they are said, and not when somebody reads a book aloud."""

import io
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

from hearth.models.catalogue import Catalogue
from hearth.models.progress import Silent
from hearth.models.wheel import fetch_wheel
from pipecatapp.voice.manners import Manners
from pipecatapp.voice.messages import HEARD_RATE
from pipecatapp.voice.worker.waking import WakeWords, Window
from speech.audio import Samples, to_pcm
from tests.integration.speech.conftest import STORE, Speech
from tests.integration.voice.conftest import Caller, Home, Message

PHRASES = {
    "okay_nabu": "Okay Nabu.", "hey_jarvis": "Hey Jarvis.", "hey_mycroft": "Hey Mycroft.",
    "alexa": "Alexa.",
}  # fmt: skip
READING = "moonshine_voice/assets/two_cities.wav"
"""44 s of a person who reads the beginning of a novel; it lies in the wheel of Moonshine."""


DRAGON = "Tell me a long story about a dragon."
"""The voice says nothing twice alike, and of "Tell me of a dragon." the ears make, one time in
thirteen, no dragon."""

FRANCE = "What is the capital of France?"
PAUSE = np.zeros(HEARD_RATE * 3 // 10, np.float32)
"""Between two sentences. Without it, 3 in 100 wake words directly after a sentence are missed."""

STORY = " ".join(f"The dragon number {n} sat on a hill and looked at the sea." for n in range(20))


@pytest.fixture(scope="module")
def voice_settings() -> dict[str, Any]:
    """A browser that hangs on a wall and listens all day."""
    return {"voice_browser": {"wake_words": ["okay_nabu"], "window_seconds": 6}}


@pytest.fixture(scope="module")
def reading() -> Samples:
    path = STORE.root / "reading" / "two_cities.wav"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        model = Catalogue.load().speech_model("moonshine-tiny-en")
        assert model.source is not None
        fetch_wheel("reading", model.source, {READING: path}, path.parent, Silent())
    samples, rate = soundfile.read(path, dtype="float32")
    return np.asarray(soxr.resample(samples, rate, HEARD_RATE), np.float32)


def found(samples: Samples) -> list[str]:
    """What all four models find, in pieces of 20 ms."""
    wake_words = WakeWords([*PHRASES])
    data, size = to_pcm(samples), HEARD_RATE // 50 * 2
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    return [word for piece in pieces if (word := wake_words.found(piece)) is not None]


def test_each_wake_word_is_found_and_no_other(speech: Speech) -> None:
    """Who says the word and is not heard says it again and again, and then buys another thing."""
    silence = np.zeros(HEARD_RATE, np.float32)
    heard = {}
    for name, phrase in PHRASES.items():
        samples, rate = soundfile.read(io.BytesIO(speech.spoken(phrase)), dtype="float32")
        said = np.asarray(soxr.resample(samples, rate, HEARD_RATE), np.float32)
        heard[name] = found(np.concatenate([silence, said, silence]))

    assert heard == {name: [name] for name in PHRASES}


def test_long_reading_of_a_person_wakes_nobody(reading: Samples) -> None:
    """A radio plays all day in the kitchen; what wakes at it listens to a family."""
    assert len(reading) > 40 * HEARD_RATE
    assert found(reading) == []


def test_window_stays_open_while_something_goes_on_and_then_for_its_time() -> None:
    """Who is speaking when the time is over is heard to the end."""
    window = Window(Manners(wake_words=("alexa",), window_seconds=0.001))
    window.hold("person")
    closed_at_first = window.opened
    window.open()
    window.hold("person")
    held = window.opened
    window.close()

    assert (closed_at_first, held, window.opened) == (False, True, False)
    assert Window(Manners()).opened


def test_stop_word_is_a_turn_of_its_own() -> None:
    """A sentence that begins with one is a question like any other."""
    manners = Manners()

    assert [manners.stops(text) for text in ("Never mind!", "That's all.")] == [True, True]
    assert not manners.stops("Stop the music.")


async def test_wake_word_opens_a_conversation_and_a_stop_word_ends_it(lasting_home: Home) -> None:
    """After the word one talks as with a person: goes on without it, stops an answer, sends it to
    sleep. What is said then is nobody's question, until the next wake word."""
    home = lasting_home
    home.house.model.when("dragon").say(STORY, pause=0.02)
    home.house.model.when("France").say("It is Paris.")
    wake, dragon, stop, question = map(home.voice_of, ("Okay Nabu.", DRAGON, "Never mind.", FRANCE))
    async with home.caller() as caller:
        await says(caller, wake, "woken")
        [story] = await says(caller, dragon, "asked")
        await caller.hears("state", state="speaking")
        await says(caller, stop, "interrupted", "dismissed", "asleep")
        await caller.speak(question)
        await caller.speak(PAUSE)
        await says(caller, wake, "woken")
        await says(caller, question, "asked", "answered", "asleep")  # Nobody went on.
    asked = [message["text"] for _, message in caller.told if message["type"] == "asked"]
    with home.house.client() as web:
        stopped = web.get(f"/api/runs/{story['run']}").json()

    assert len(asked) == 2
    assert ("dragon" in asked[0].lower(), "france" in asked[1].lower()) == (True, True), asked
    assert stopped["status"] in ("cancelled", "done")


async def says(caller: Caller, sound: Samples, *types: str) -> list[Message]:
    """Say it, and then nothing until each of these has been told."""
    before = len(caller.told)
    await caller.speak(sound)
    async with caller.quiet():
        return [await caller.hears(type, after=before) for type in types]
