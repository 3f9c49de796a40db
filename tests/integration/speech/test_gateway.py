"""The real speech services behind the real gateway, found by a real Consul: one address for all."""

import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
import openai
import pytest

from hearth.service.names import SPEECH_STT, SPEECH_TTS
from tests.integration.gateway.api.test_traces import PARENT, TRACE, Collector
from tests.integration.gateway.conftest import KEY as PEOPLE
from tests.integration.gateway.conftest import Lab, instances_of, wait_until
from tests.integration.gateway.consul import running
from tests.integration.speech.conftest import SENTENCES, Speech, word_errors

STT, TTS = "/v1/audio/transcriptions", "/v1/audio/speech"
KINDS = {"mp3": "audio/mpeg", "opus": "audio/ogg"}


@pytest.fixture(scope="module")
def collector() -> Collector:
    """Of traces."""
    return Collector()


@pytest.fixture(scope="module")
def gateway(
    speech: Speech, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx2.Client]:
    """It knows the services by Consul alone."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    with ExitStack() as stack:
        consul = stack.enter_context(running(folder))
        for name, url in ((SPEECH_STT, speech.stt), (SPEECH_TTS, speech.tts)):
            consul.register(name, urlsplit(url).port or 0, slots="2")
        lab = Lab(stack, folder)
        traces = f"{lab.serve(collector)}/v1/traces"
        gateway = lab.gateway(
            ready=False, consul_url=consul.url, speech_key_file=speech.key_file, traces_url=traces
        )
        wait_until(lambda: [one["healthy"] for one in instances_of(gateway)] == [True] * 2)
        yield gateway


@pytest.fixture
def client(gateway: httpx2.Client) -> Iterator[openai.OpenAI]:
    url = f"{gateway.base_url}/v1"
    with openai.OpenAI(base_url=url, api_key=PEOPLE, max_retries=0, timeout=120) as client:
        yield client


def test_text_is_spoken_piece_by_piece_and_heard_again(client: openai.OpenAI) -> None:
    """The same client as for text, with OpenAI's names for what this house has."""
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=" ".join(SENTENCES[:2]), response_format="wav"
    ) as answer:
        pieces = list(answer.iter_bytes())
        told = answer.headers
    heard = client.audio.transcriptions.create(
        model="whisper-1", file=("speech.wav", b"".join(pieces))
    )

    assert len(pieces) > 1
    assert told["x-hearth-route"] == "speech: the house's tts"
    assert told["content-type"] == "audio/wav"
    assert word_errors(" ".join(SENTENCES[:2]), heard.text) <= 0.4


@pytest.mark.parametrize("kind", ["mp3", "opus"])
def test_file_of_each_kind_goes_both_ways(
    client: openai.OpenAI, kind: Literal["mp3", "opus"]
) -> None:
    """Bytes that are no text pass through as they are, in answers and in forms."""
    answer = client.audio.speech.create(
        model="tts-1", voice="alloy", input=SENTENCES[0], response_format=kind
    )
    heard = client.audio.transcriptions.create(
        model="whisper-1", file=(f"speech.{kind}", answer.content)
    )

    assert answer.response.headers["content-type"] == KINDS[kind]
    assert word_errors(SENTENCES[0], heard.text) <= 0.4


def test_raw_samples_and_events_are_the_same_sound(
    client: openai.OpenAI, gateway: httpx2.Client
) -> None:
    """Programs play `pcm` as 24 kHz; browsers read the same as events."""
    asked = {"model": "tts-1", "voice": "alloy", "input": SENTENCES[0], "response_format": "pcm"}
    raw = gateway.post(TTS, json=asked)
    events = gateway.post(TTS, json={**asked, "stream_format": "sse"})
    told = [json.loads(line[6:]) for line in events.text.splitlines() if line]
    sound = b"".join(base64.b64decode(one["audio"]) for one in told[:-1])

    assert events.headers["content-type"].startswith("text/event-stream")
    assert {one["type"] for one in told[:-1]} == {"speech.audio.delta"}
    assert told[-1]["type"] == "speech.audio.done"
    assert told[-1]["usage"]["output_tokens"] > 0
    for samples in (raw.content, sound):
        assert 1 < len(samples) / 2 / 24_000 < 4


def test_parts_of_a_transcription_have_their_times(client: openai.OpenAI, speech: Speech) -> None:
    """What the service tells beside the words passes through, as JSON and as text."""
    sound = ("a.wav", speech.spoken(SENTENCES[0]))
    whole = client.audio.transcriptions.create(
        model="auto", file=sound, response_format="verbose_json"
    )
    subtitles = client.audio.transcriptions.create(model="auto", file=sound, response_format="srt")

    assert whole.segments
    assert 0 <= whole.segments[0].start < whole.segments[0].end <= whole.duration
    assert subtitles.startswith("1\n00:00:0")


def test_words_come_while_the_rest_is_heard(client: openai.OpenAI, speech: Speech) -> None:
    """Events of the official client, the whole text in the last one."""
    sound = ("a.wav", speech.spoken(SENTENCES[0]))
    stream = client.audio.transcriptions.create(model="whisper-1", file=sound, stream=True)
    events = list(stream)

    assert {event.type for event in events[:-1]} == {"transcript.text.delta"}
    assert events[-1].type == "transcript.text.done"
    assert word_errors(SENTENCES[0], events[-1].text) <= 0.4


def test_trace_holds_no_word_that_was_spoken_or_heard(
    client: openai.OpenAI, collector: Collector
) -> None:
    """Traces are kept for weeks, by another program, and read by whoever mends something."""
    mine = client.with_options(default_headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    said = mine.audio.speech.create(model="tts-1", voice="alloy", input="Xylophone elephant.")
    heard = mine.audio.transcriptions.create(model="whisper-1", file=("a.mp3", said.content))
    told = {"speech tts-1", "transcription whisper-1"}
    wait_until(lambda: told <= {s.name for s in collector.spans if s.trace_id.hex() == TRACE}, 60)

    assert "elephant" in heard.text.lower()
    assert [word for word in (b"lephant", b"ylophone") if word in collector.raw] == []


@pytest.mark.parametrize(
    ("model", "fields", "status"),
    [
        ("tts-1", {"voice": "alloy", "input": ""}, 400),
        ("nobody", {"voice": "alloy", "input": "x"}, 404),
        ("tts-1", {"voice": "alloy", "input": "x", "response_format": "midi"}, 400),
    ],
)
def test_refusal_of_the_service_is_the_clients_error(
    gateway: httpx2.Client, model: str, fields: dict[str, Any], status: int
) -> None:
    """In OpenAI's shape, with where it comes from."""
    answer = gateway.post("/v1/audio/speech", json={"model": model, **fields})

    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]
    assert answer.headers["x-hearth-route"]


@pytest.mark.timeout(400)  # It waits for a service to start.
def test_voice_that_is_killed_breaks_one_answer_and_speaks_again(
    gateway: httpx2.Client, speech: Speech
) -> None:
    """Half a sound must not look whole; who asks meanwhile is told that there is no voice."""
    asked = {"model": "tts-1", "voice": "alloy", "response_format": "wav"}
    long = " ".join(SENTENCES * 20)[:4000]
    with gateway.stream("POST", TTS, json={**asked, "input": long}) as answer:
        pieces = answer.iter_raw(10_000)
        next(pieces)
        speech.kill(SPEECH_TTS)
        with pytest.raises(httpx2.RemoteProtocolError):
            list(pieces)
    gone = gateway.post(TTS, json={**asked, "input": "Hello."})
    speech.start_again(SPEECH_TTS)
    wait_until(lambda: gateway.post(TTS, json={**asked, "input": "Hello."}).status_code == 200)

    assert answer.status_code == 200
    assert gone.status_code == 503, gone.text
    assert gone.json()["error"]["message"]
    assert gone.headers["x-hearth-route"]


@pytest.mark.timeout(400)  # It waits for a service to start.
def test_ears_that_are_killed_are_missed_and_hear_again(
    gateway: httpx2.Client, speech: Speech
) -> None:
    """The gateway finds out by itself, whatever Consul believes, and takes them back, too."""
    form: Any = {
        "files": {"file": ("a.wav", speech.spoken(SENTENCES[0]))},
        "data": {"model": "whisper-1"},
    }
    speech.kill(SPEECH_STT)
    gone = gateway.post(STT, **form)
    speech.start_again(SPEECH_STT)
    wait_until(lambda: gateway.post(STT, **form).status_code == 200)

    assert gone.status_code == 503, gone.text
    assert gone.json()["error"]["message"]
    assert word_errors(SENTENCES[0], gateway.post(STT, **form).json()["text"]) <= 0.4
