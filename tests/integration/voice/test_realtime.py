"""Realtime sessions by voice, with OpenAI's own client and real engines; the model is scripted."""

import base64
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
import soxr

from pipecatapp.voice.messages import HEARD_RATE, SPOKEN_RATE
from speech.audio import Samples, to_pcm
from tests.integration.gateway.callers.realtime import Talk, talk
from tests.integration.gateway.conftest import Lab
from tests.integration.speech.conftest import word_errors
from tests.integration.voice.conftest import Caller, Home

QUESTION = "What is the capital of France?"
ANSWER = "It is Paris, and many people go there in the summer to see the river."
STORY = " ".join(f"The dragon number {n} sat on a hill and looked at the sea." for n in range(20))
SILENCE = np.zeros(3 * SPOKEN_RATE, np.float32)
AUDIO = "response.output_audio.delta"
TRANSCRIPT = "conversation.item.input_audio_transcription.completed"
PIECE = 2 * SPOKEN_RATE // 5


@pytest.fixture(scope="module")
def gateway(lasting_home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The gateway in front of the home's agent."""
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "agent_key").write_text(lasting_home.house.key, encoding="ascii")
    with ExitStack() as stack:
        lab = Lab(stack, folder)
        agent = lab.at(lasting_home.house.address, lists_models=True)
        yield str(lab.gateway({**agent, "key_file": folder / "agent_key"}).base_url)


def voice_of(home: Home, text: str) -> bytes:
    """A person's voice at the rate of the API, as bytes."""
    heard = soxr.resample(home.voice_of(text), HEARD_RATE, SPOKEN_RATE)
    return to_pcm(np.asarray(heard, np.float32))


async def speak(session: Talk, *sounds: bytes) -> None:
    """Send audio as fast as the connection takes it."""
    data = b"".join(sounds)
    for start in range(0, len(data), PIECE):
        audio = base64.b64encode(data[start : start + PIECE]).decode("ascii")
        await session.send("input_audio_buffer.append", audio=audio)


def sound_of(session: Talk) -> Samples:
    """All audio of the answers."""
    pieces = [base64.b64decode(one["delta"]) for one in session.events if one["type"] == AUDIO]
    return np.frombuffer(b"".join(pieces), "<i2").astype(np.float32) / np.float32(32768)


def heard(home: Home, session: Talk) -> str:
    """The words of the answers, as our own engine understands them."""
    caller = Caller(None, sound=[(0.0, sound_of(session))])  # type: ignore[arg-type]
    return home.speech.heard(caller.wav())


async def test_spoken_question_gets_a_spoken_answer(lasting_home: Home, gateway: str) -> None:
    """The server finds the turn; the client does nothing but to send its microphone."""
    lasting_home.house.model.when("capital").say(ANSWER)
    async with talk(gateway, "agent", text=False) as session:
        await speak(session, voice_of(lasting_home, QUESTION), to_pcm(SILENCE))
        transcript = (await session.gets(TRANSCRIPT))["transcript"]
        done = (await session.gets("response.done"))["response"]
    types = session.types()

    assert "capital" in transcript.lower()
    assert session.joined("response.output_audio_transcript.delta") == ANSWER
    assert done["output"][0]["content"][0]["transcript"] == ANSWER
    assert word_errors(ANSWER, heard(lasting_home, session)) <= 0.3
    order = [
        "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed", TRANSCRIPT, "response.created", AUDIO,
        "response.output_audio.done", "response.done",
    ]  # fmt: skip
    assert [types.index(one) for one in order] == sorted(types.index(one) for one in order)
    await lasting_home.empty()


async def test_speech_stops_the_answer(lasting_home: Home, gateway: str) -> None:
    """The response is cancelled, and its words that were not spoken are forgotten."""
    model = lasting_home.house.model
    model.when("story").say(STORY, pause=0.5)
    model.when("capital").say(ANSWER)
    async with talk(gateway, "agent", text=False) as session:
        await session.says("Tell me a story.")
        await session.send("response.create")
        await session.gets(AUDIO)
        await speak(session, voice_of(lasting_home, QUESTION), to_pcm(SILENCE))
        await session.gets("input_audio_buffer.speech_started")
        stopped = (await session.gets("response.done"))["response"]
        second = (await session.gets("response.done"))["response"]
    asked = model.requests[-1].body["messages"]

    assert stopped["status"] == "cancelled"
    assert stopped["status_details"]["reason"] == "turn_detected"
    assert 0 < len(asked[1]["content"]) < len(STORY)
    assert second["status"] == "completed"
    assert second["output"][0]["content"][0]["transcript"] == ANSWER


async def test_client_that_commits_decides_when_it_is_answered(
    lasting_home: Home, gateway: str
) -> None:
    """Push to talk: nothing is heard before; what was not played is removed."""
    lasting_home.house.model.when("capital").say(ANSWER)
    lasting_home.house.model.when("river").say("The Seine.")
    async with talk(gateway, "agent", text=False) as session:
        await session.update(audio={"input": {"turn_detection": None}})
        await speak(session, voice_of(lasting_home, QUESTION))
        await session.send("input_audio_buffer.commit")
        await session.send("response.create")
        done = (await session.gets("response.done"))["response"]
        transcript = next(one for one in session.events if one["type"] == TRANSCRIPT)
        item = done["output"][0]["id"]
        await session.send(
            "conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=100
        )
        await session.gets("conversation.item.truncated")
        await session.send("conversation.item.retrieve", item_id=item)
        kept = (await session.gets("conversation.item.retrieved"))["item"]
        await session.update(output_modalities=["text"])
        text = await session.asks("Which river?")

    assert "capital" in transcript["transcript"].lower()
    assert transcript["usage"]["seconds"] == pytest.approx(2, abs=1.5)
    assert word_errors(ANSWER, heard(lasting_home, session)) <= 0.3
    assert ANSWER.startswith(kept["content"][0]["transcript"])
    assert 0 < len(kept["content"][0]["transcript"]) < len(ANSWER)
    assert text["output"][0]["content"][0]["text"] == "The Seine."


async def test_recording_as_an_item_is_transcribed(lasting_home: Home, gateway: str) -> None:
    """A whole recording needs no buffer."""
    lasting_home.house.model.when("capital").say(ANSWER)
    audio = base64.b64encode(voice_of(lasting_home, QUESTION)).decode("ascii")
    content = [{"type": "input_audio", "audio": audio}]
    async with talk(gateway, "agent") as session:
        item = {"type": "message", "role": "user", "content": content}
        await session.send("conversation.item.create", item=item)
        await session.send("response.create")
        done = (await session.gets("response.done"))["response"]

    assert done["output"][0]["content"][0]["text"] == ANSWER


async def test_full_house_is_an_error_and_text_goes_on(lasting_home: Home, gateway: str) -> None:
    """Only audio needs a voice session."""
    lasting_home.house.model.when("hello").say("Good day.")
    with lasting_home.another({"voice_sessions": 0}) as full:
        at_the_agent = talk(full.house.address, "agent", key=full.house.key, text=False)
        async with at_the_agent as session:
            await speak(session, to_pcm(SILENCE))
            error = (await session.gets("error"))["error"]
            await session.update(output_modalities=["text"])
            done = await session.asks("hello")

    assert error["code"] == "voice_busy"
    assert done["status"] == "completed"
