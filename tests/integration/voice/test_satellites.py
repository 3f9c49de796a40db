"""Wyoming: what Home Assistant and its satellites ask, with real engines; the model is scripted."""

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import soundfile
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.handle import Handled, NotHandled
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.pipeline import PipelineStage, RunPipeline
from wyoming.satellite import RunSatellite
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
)
from wyoming.vad import VoiceStarted
from wyoming.wake import Detection

from pipecatapp.voice.messages import CANNOT_ANSWER
from speech.audio import Samples
from tests.dashboards.__main__ import render
from tests.dashboards.agent import AGENT
from tests.integration.agent.documents.test_one_run import normalised
from tests.integration.local.conftest import free_port_base
from tests.integration.speech.conftest import word_errors
from tests.integration.voice.client import WyomingClient, wyoming_client
from tests.integration.voice.conftest import Home

QUESTION = "What is the capital of France?"
ANSWER = "It is Paris, and many people go there in the summer to see the river."
VOICES = [("en-us-joe", ["en-US"])]
LISTEN = RunPipeline(start_stage=PipelineStage.ASR, end_stage=PipelineStage.TTS)
WAKE = RunPipeline(start_stage=PipelineStage.WAKE, end_stage=PipelineStage.TTS, restart_on_end=True)


@pytest.fixture(scope="module")
def voice_settings() -> dict[str, object]:
    return {
        "wyoming_port": free_port_base(),
        "voice_sessions": 1,
        "voice_satellite": {"wake_words": ["okay_nabu"], "window_seconds": 6},
    }


@pytest.fixture
def home(lasting_home: Home) -> Home:
    """The one house of this file."""
    lasting_home.house.model.when("France").say(ANSWER, pause=0.02)
    lasting_home.house.model.when("Italy").refuse(500)
    return lasting_home


def heard(home: Home, samples: Samples, rate: int) -> str:
    """What our ears make of it."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV")
    return home.speech.heard(file.getvalue())


async def test_home_assistant_finds_ears_a_voice_and_an_agent(home: Home) -> None:
    """Assist builds a pipeline of what it is told; what is not told is not there for it."""
    async with wyoming_client(home.wyoming) as client:
        await client.send(Ping(text="here?"), Describe())
        info = await client.gets(Info)
        pong = await client.gets(Pong)

    assert pong.text == "here?"
    assert [bool(kind) for kind in (info.asr, info.tts, info.handle)] == [True, True, True]
    assert info.tts[0].supports_synthesize_streaming
    assert info.asr[0].models[0].languages == ["en"]
    assert [(voice.name, voice.languages) for voice in info.tts[0].voices] == VOICES
    assert info.handle[0].models[0].languages == ["en"]


async def test_text_is_spoken_and_sound_is_heard(home: Home) -> None:
    """Assist asks for each step by itself: what one speaks the other must hear."""
    async with wyoming_client(home.wyoming) as client:
        await client.send(Synthesize(text=QUESTION))
        await client.gets(AudioStop)
        samples, rate = client.sound()
    async with wyoming_client(home.wyoming) as client:
        await client.send(Transcribe(language="en"))
        await client.record(home.voice_of(QUESTION))
        transcript = await client.gets(Transcript)

    assert word_errors(QUESTION, heard(home, samples, rate)) <= 0.2
    assert word_errors(QUESTION, transcript.text) <= 0.2


async def test_text_in_pieces_is_spoken_once(home: Home) -> None:
    """Assist sends a text while it is being written, and then the whole of it again."""
    async with wyoming_client(home.wyoming) as client:
        await client.send(SynthesizeStart())
        for word in ANSWER.split():
            await client.send(SynthesizeChunk(text=f"{word} "))
        await client.send(Synthesize(text=ANSWER), SynthesizeStop())
        await client.gets(SynthesizeStopped)
        samples, rate = client.sound()

    assert client.types().count("audio-start") == client.types().count("audio-stop") == 1
    assert word_errors(ANSWER, heard(home, samples, rate)) <= 0.3


async def test_text_of_assist_is_answered_by_a_run_of_the_agent(home: Home) -> None:
    """Home Assistant's conversation goes on where it was, and a model that is down is told."""
    context = {"conversation_id": "kitchen"}
    async with wyoming_client(home.wyoming) as client:
        await client.send(Transcript(text=QUESTION, context=context))
        handled = await client.gets(Handled)
        await client.send(Transcript(text="And of Italy?", context=context))
        failed = await client.gets(NotHandled)
    with home.house.client() as web:
        runs = web.get("/api/runs", params={"conversation": "wyoming-kitchen"}).json()["runs"]

    assert (handled.text, handled.context) == (ANSWER, context)
    assert failed.text == CANNOT_ANSWER
    assert [run["status"] for run in runs] == ["failed", "done"]


async def test_satellite_that_was_woken_is_heard_and_answered(home: Home) -> None:
    """The whole round of a satellite with a wake word of its own."""
    async with wyoming_client(home.wyoming) as client:
        await client.send(LISTEN)
        await client.speak(home.voice_of(QUESTION))
        async with client.quiet():
            transcript = await client.gets(Transcript)
        said = await client.gets(Synthesize)
        await client.gets(AudioStop)
        start = await client.gets(AudioStart)
        samples, rate = client.sound()
        order = [t for t in client.types() if t != "audio-chunk"]
    with home.house.client() as web:
        run = web.get("/api/runs").json()["runs"][0]
    await home.empty()

    assert word_errors(QUESTION, transcript.text) <= 0.2
    assert said.text == ANSWER
    assert word_errors(ANSWER, heard(home, samples, rate)) <= 0.3
    assert (start.rate, rate) == (22_050, 22_050)
    assert (run["workflow"], run["status"]) == ("agent-turn", "done")
    assert order.index("voice-started") < order.index("transcript") < order.index("audio-start")
    assert order.index("voice-started") < order.index("voice-stopped")


async def test_satellite_that_only_listens_is_woken_by_our_wake_word(home: Home) -> None:
    """What is said in a room is nobody's question before the wake word, and after a stop word."""
    wake, question = home.voice_of("Okay Nabu."), home.voice_of(QUESTION)
    async with wyoming_client(home.wyoming) as client:
        await client.send(WAKE)
        await client.speak(question)
        async with client.quiet():
            await asyncio.sleep(2)
        await client.speak(wake)
        async with client.quiet():
            detection = await client.gets(Detection)
        before = client.types()
        await client.speak(question)
        async with client.quiet():
            await client.gets(Transcript)
            await client.gets(AudioStop)
        after = len(client.events)
        await client.speak(home.voice_of("Never mind."))
        async with client.quiet():
            stopped = await client.gets(Transcript, after=after)
        asked = len(home.house.model.requests)
        await client.speak(question)
        async with client.quiet():
            await asyncio.sleep(2)
    await home.empty()

    assert detection.name == "okay_nabu"
    assert "transcript" not in before
    assert word_errors("never mind", stopped.text) == 0
    assert len(home.house.model.requests) == asked
    assert client.types().count("transcript") == 2


async def test_who_wakes_it_and_says_nothing_is_not_waited_for(home: Home) -> None:
    """A satellite streams its room until it is told that it may stop."""
    async with wyoming_client(home.wyoming) as client:
        await client.send(LISTEN)
        async with client.quiet():
            error = await client.gets(Error)
    await home.empty()

    assert error.code == "stt-no-text-recognized"
    assert "transcript" not in client.types()


async def test_second_satellite_is_told_that_the_house_is_busy(home: Home) -> None:
    """It plays its sound of trouble; nobody stutters."""
    async with wyoming_client(home.wyoming) as first, wyoming_client(home.wyoming) as second:
        await first.send(LISTEN)
        await first.speak(home.voice_of(QUESTION))
        async with first.quiet():
            await first.gets(VoiceStarted)
            await second.send(LISTEN)
            error = await second.gets(Error)
            await second.send(Describe())
            await second.gets(Info)
    await home.empty()

    assert error.code == "busy"


@pytest.mark.parametrize(
    "sent",
    [b"GET / HTTP/1.1\r\n\r\n", b'{"type": "describe", "payload_length": 99999999999}\n', b"[]\n"],
)
async def test_what_is_no_event_ends_the_connection(home: Home, sent: bytes) -> None:
    """Nobody fills our memory with what he only announces."""
    reader, writer = await asyncio.open_connection("127.0.0.1", home.wyoming)
    writer.write(sent)
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    async with wyoming_client(home.wyoming) as client:
        await client.send(Describe())
        await client.gets(Info)

    assert answer == b""


@asynccontextmanager
async def satellite_listening() -> AsyncIterator[tuple[int, "asyncio.Future[WyomingClient]"]]:
    """A satellite as they are: it waits on a port for somebody to be its server."""
    called: asyncio.Future[WyomingClient] = asyncio.get_running_loop().create_future()
    listening: list[asyncio.Task[None]] = []
    writers: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        connection = AsyncTcpClient("", 0)
        connection._reader, connection._writer = reader, writer
        client = WyomingClient(connection)
        listening.append(asyncio.create_task(client.listen()))
        if not called.done():
            called.set_result(client)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], called
    finally:
        server.close()
        for writer in writers:
            writer.close()
            await writer.wait_closed()
        await server.wait_closed()
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)


async def test_satellite_without_home_assistant_is_called_by_us(home: Home) -> None:
    """Satellites wait to be called; one that is named in the settings needs nobody else."""
    async with satellite_listening() as (port, called):
        with home.another({"satellites": [f"tcp://127.0.0.1:{port}"]}) as other:
            async with other.caller():  # Its worker is warm: a satellite keeps a minute of sound.
                pass
            async with asyncio.timeout(60):
                client = await called
            await client.gets(RunSatellite)
            await client.send(LISTEN)
            await client.speak(home.voice_of(QUESTION))
            async with client.quiet():
                await client.gets(Transcript)
            await client.gets(AudioStop)
            samples, rate = client.sound()

    assert np.abs(samples).max() > 0.02
    assert word_errors(ANSWER, heard(home, samples, rate)) <= 0.3


def differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What is not the same in both."""
    keys = sorted(one.keys() | other.keys())
    return {k: (one.get(k), other.get(k)) for k in keys if one.get(k) != other.get(k)}


async def test_chat_voice_and_home_assistant_start_the_same_run(home: Home) -> None:
    """What was tried in a chat is what a kitchen gets, step by step."""
    runs = []
    with home.house.client() as web:

        def latest(conversation: str) -> dict[str, Any]:
            run = web.get("/api/runs?limit=1").json()["runs"][0]["id"]
            text = json.dumps(normalised(run, web))
            # The first turn of a conversation has seen it since its own run.
            for own in (conversation, run):
                text = text.replace(own, "its own")
            return dict(json.loads(text))

        chat = {"model": "agent", "messages": [{"role": "user", "content": QUESTION}]}
        web.post("/v1/chat/completions", json=chat | {"conversation": "a-chat"}).raise_for_status()
        runs.append(latest("a-chat"))
        async with home.caller(conversation="a-talk") as caller:
            await caller.socket.send(json.dumps({"type": "text", "text": QUESTION}))
            await caller.hears("answered")
            await caller.hears("spoken")
        runs.append(latest("a-talk"))
        async with wyoming_client(home.wyoming) as client:
            context = {"conversation_id": "hall"}
            await client.send(Transcript(text=QUESTION, context=context))
            await client.gets(Handled)
        runs.append(latest("wyoming-hall"))
    await home.empty()

    assert runs[0]["view"]["status"] == "done"
    for other in runs[1:]:
        assert differences(runs[0]["view"], other["view"]) == {}
        assert other["events"] == runs[0]["events"]


def test_panels_of_voice_ask_for_figures_that_the_house_tells(home: Home) -> None:
    """A panel that asks for another name is empty for ever, and nobody knows why."""
    asked = set(re.findall(r"voice_\w+", render(AGENT)))
    with home.house.client() as web:
        told = web.get("/metrics").text

    assert len(asked) >= 3
    assert [name for name in sorted(asked) if f"\n{name}" not in told] == []
