"""`/v1/audio/…`: forms and sound pass through, to the house's speech services."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import openai
import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.api.speech import SOUND, Speech
from tests.integration.gateway.conftest import (
    CHAT,
    KEY,
    Lab,
    chat,
    gauge,
    instances_of,
    raw,
    wait_until,
)

STT, TTS = "/v1/audio/transcriptions", "/v1/audio/speech"
WAV = ("a.wav", SOUND * 20, "audio/wav")
ASKED = {"model": "tts-1", "input": "x"}


@pytest.fixture
def ears() -> Speech:
    return Speech("stt", "moonshine")


@pytest.fixture
def voice() -> Speech:
    return Speech("tts", "piper")


@pytest.fixture
def gateway(lab: Lab, ears: Speech, voice: Speech) -> httpx2.Client:
    return lab.gateway(
        lab.expert(ScriptedModel()),
        lab.at(lab.serve(ears), speech="stt", slots=2),
        lab.at(lab.serve(voice), speech="tts", slots=2),
    )


@pytest.fixture
def client(gateway: httpx2.Client) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@pytest.mark.parametrize("model", ["whisper-1", "moonshine", "auto"])
def test_recording_reaches_the_ears_of_the_house(
    client: openai.OpenAI, ears: Speech, model: str
) -> None:
    """The form as it came, with the name of the engine that is there."""
    answer = client.audio.transcriptions.create(model=model, file=WAV, language="en")

    assert answer.text == "hello house"
    headers, body = ears.requests[0]
    assert headers["content-type"].startswith("multipart/form-data; boundary=")
    assert headers["authorization"] == "Bearer sk-hearth-test-of-services"
    assert b'name="model"\r\n\r\nmoonshine\r\n' in body
    assert b'name="language"\r\n\r\nen\r\n' in body
    assert SOUND * 20 in body


def test_form_whose_names_have_no_quotes_is_one(gateway: httpx2.Client, ears: Speech) -> None:
    """So .NET sends it."""
    lines = (
        b"--b\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name=%s\r\n\r\n%s\r\n"
    )
    fields = {b"file; filename=a.wav": SOUND, b"language": b"en", b"model": b"whisper-1"}
    body = b"".join(lines % one for one in fields.items()) + b"--b--\r\n"

    kind = {"content-type": 'multipart/form-data; boundary="b"'}
    answer = gateway.post(STT, content=body, headers=kind)

    assert answer.status_code == 200, answer.text
    assert b"name=model\r\n\r\nmoonshine\r\n" in ears.requests[0][1]


def test_streamed_transcription_comes_as_events(client: openai.OpenAI, ears: Speech) -> None:
    """The words are shown while the rest is still being listened to."""
    ears.held = threading.Event()
    stream = client.audio.transcriptions.create(model="whisper-1", file=WAV, stream=True)

    first = next(stream).type
    ears.held.set()
    assert [first, *(event.type for event in stream)] == [
        "transcript.text.delta",
        "transcript.text.done",
    ]


def test_sound_is_heard_before_all_of_it_is_there(gateway: httpx2.Client, voice: Speech) -> None:
    """A long text takes a voice many seconds."""
    voice.held = threading.Event()
    with gateway.stream("POST", TTS, json={"model": "tts-1", "input": "x"}) as answer:
        pieces = answer.iter_raw()
        first = next(pieces)
        voice.held.set()
        rest = b"".join(pieces)

    assert first + rest == SOUND
    assert rest


@pytest.mark.parametrize("model", ["tts-1", "piper"])
def test_text_is_spoken(client: openai.OpenAI, voice: Speech, model: str) -> None:
    """Every byte of the sound, with its type, and who spoke."""
    with client.audio.speech.with_streaming_response.create(
        model=model, voice="amy", input="Hello.", response_format="wav"
    ) as answer:
        sound = answer.read()

    assert sound == SOUND
    assert answer.headers["content-type"] == "audio/wav"
    assert answer.headers["x-hearth-expert"] == "tts"
    assert answer.headers["x-hearth-route"]
    assert b'"model":"piper"' in voice.requests[0][1].replace(b" ", b"")


def test_sound_that_takes_too_long_breaks_off(lab: Lab, voice: Speech) -> None:
    """Words of an error would be played as noise, and their end be taken for that of the sound."""
    voice.held = threading.Event()
    gateway = lab.gateway(lab.at(lab.serve(voice), speech="tts"), deadline_seconds=0.5)
    found: list[bytes] = []
    try:
        with (
            gateway.stream("POST", TTS, json=ASKED) as answer,
            pytest.raises(httpx2.RemoteProtocolError),
        ):
            found.extend(answer.iter_raw())
    finally:
        voice.held.set()

    assert answer.status_code == 200
    assert SOUND.startswith(b"".join(found))


def old_answer(gateway: httpx2.Client) -> bytes:
    """What a caller of HTTP/1.0 reads until its connection ends."""
    where = gateway.base_url.host, gateway.base_url.port or 0
    with socket.create_connection(where, timeout=60) as connection:
        connection.sendall(raw(gateway, ASKED, TTS).replace(b"HTTP/1.1", b"HTTP/1.0"))
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_sound_that_breaks_off_breaks_the_callers_connection(lab: Lab) -> None:
    """Half a sound that ends properly would be played as if it were whole."""
    gateway = lab.gateway(
        lab.at(lab.serve(Speech("tts", breaks=True, wait=0.05)), speech="tts"), ready=True
    )

    with (
        pytest.raises(httpx2.RemoteProtocolError),
        gateway.stream("POST", TTS, json={"model": "tts-1", "input": "x"}) as answer,
    ):
        answer.read()


def test_sound_that_breaks_off_resets_a_caller_of_http_1_0(lab: Lab) -> None:
    """For whom the end of the connection is the end of the sound."""
    voice = lab.serve(Speech("tts", breaks=True, wait=0.05))
    gateway = lab.gateway(lab.at(voice, speech="tts"))

    with pytest.raises(ConnectionResetError):
        old_answer(gateway)


def test_whole_sound_ends_well_for_a_caller_of_http_1_0(gateway: httpx2.Client) -> None:
    """All of it, then the end of the connection."""
    assert old_answer(gateway).endswith(b"\r\n\r\n" + SOUND)


def test_words_that_break_off_are_the_clients_error(lab: Lab) -> None:
    """A stream of events that merely ends is a whole one to the official client."""
    ears = lab.serve(Speech("stt", breaks=True, wait=0.05))
    gateway = lab.gateway(lab.at(ears, speech="stt"))
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=KEY, max_retries=0) as client:
        stream = client.audio.transcriptions.create(model="whisper-1", file=WAV, stream=True)
        first = next(iter(stream)).type
        with pytest.raises(openai.APIError) as broken:
            list(stream)

    assert first == "transcript.text.delta"
    assert broken.value.code == "upstream_lost"


def test_sound_that_had_to_wait_is_nothing_but_sound(lab: Lab, voice: Speech) -> None:
    """Programs send `stream` here, too; comments of events would be noise in a file of sound."""
    voice.held = threading.Event()
    gateway = lab.gateway(lab.at(lab.serve(voice), speech="tts", slots=1), keepalive_seconds=0.05)
    with ThreadPoolExecutor(2) as callers:
        first = callers.submit(gateway.post, TTS, json=ASKED)
        wait_until(lambda: gauge(gateway, "moe_gateway_in_flight") == 1)
        second = callers.submit(gateway.post, TTS, json={**ASKED, "stream": True})
        wait_until(lambda: gauge(gateway, "moe_gateway_waiting") == 1)
        time.sleep(0.2)  # Several signs of life.
        voice.held.set()

    assert first.result().content == SOUND
    assert second.result().content == SOUND
    assert second.result().headers["content-type"] == "audio/wav"


def test_next_service_speaks_when_the_first_is_gone(lab: Lab, voice: Speech) -> None:
    """As for text: before the first byte another one is asked."""
    gateway = lab.gateway(
        lab.at("http://127.0.0.1:9", speech="tts"),
        lab.at(lab.serve(voice), speech="tts"),
        ready=False,
    )
    wait_until(lambda: any(one["healthy"] for one in instances_of(gateway)))

    assert gateway.post(TTS, json={"model": "tts-1", "input": "x"}).content == SOUND


@pytest.mark.parametrize(
    ("path", "form", "status", "code"),
    [
        (TTS, {"model": "nobody", "input": "x"}, 404, "model_not_found"),
        (TTS, {"model": "moonshine", "input": "x"}, 404, "model_not_found"),
        (TTS, {"input": "x"}, 400, "missing_required_parameter"),
        (STT, {"model": "whisper-1"}, 415, "unsupported_content_type"),
        (CHAT, chat("x", "piper"), 404, "model_not_found"),
    ],
)
def test_what_does_not_fit_is_refused_here(
    gateway: httpx2.Client, path: str, form: dict[str, object], status: int, code: str | None
) -> None:
    """An ear does not speak, a form is no JSON, and a voice holds no conversation."""
    answer = gateway.post(path, json=form)

    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code


def test_form_without_a_model_is_told_what_is_missing(gateway: httpx2.Client) -> None:
    """A file that is called `model` is no model."""
    answer = gateway.post(STT, files={"file": WAV, "model": ("model", b"x")})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "model"


def test_house_without_speech_says_so(lab: Lab) -> None:
    """404: asking again does not help."""
    gateway = lab.gateway(lab.expert(ScriptedModel()))

    answer = gateway.post(TTS, json={"model": "tts-1", "input": "x"})

    assert answer.status_code == 404
    assert "No service here turns text into speech" in answer.json()["error"]["message"]
