"""What goes wrong between a caller, the gateway and the real speech services: each time OpenAI's
error, and nothing of it stays: no slot, connection or task, and no word of what was said."""

import json
import signal
import threading
import wave
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import openai
import psutil
import pytest

from hearth.openai_api.testing import ScriptedModel
from hearth.service.names import SPEECH_STT, SPEECH_TTS
from tests.integration.gateway.conftest import KEY, Json, Lab, gauge, wait_until
from tests.integration.gateway.robust.process import Gateway
from tests.integration.speech.conftest import SENTENCES, Speech

STT, TTS = "/v1/audio/transcriptions", "/v1/audio/speech"
SAID = "The xylophone belongs to an elephant."
WORDS = ("xylophone", "elephant")
LONG = " ".join([SAID, *SENTENCES * 20])[:4000]
NOISE = bytes(range(256)) * 40
MEBIBYTE = 1024 * 1024
SAY: Json = {"model": "tts-1", "voice": "alloy", "input": SAID, "response_format": "pcm"}


class House:
    """Gateways in front of the speech services, and what they wrote and hold."""

    def __init__(self, stack: ExitStack, folder: Path, speech: Speech) -> None:
        self._stack, self._folder, self.speech = stack, folder, speech
        self._lab = Lab(stack, folder)
        self.gateways: list[Gateway] = []
        self.gateway = self.open()

    def open(self, **settings: str) -> Gateway:
        """A gateway with these settings that has found both services, until the tests are over."""
        speech, key = self.speech, self.speech.key_file
        gateway = Gateway(
            self._folder,
            self._lab.expert(ScriptedModel()),
            {"url": speech.stt, "speech": "stt", "key_file": key, "slots": 2},
            {"url": speech.tts, "speech": "tts", "key_file": key, "slots": 2},
            CIRCUIT_FAILURES="1000",
            **settings,
        )
        self.gateways.append(self._stack.enter_context(gateway))
        for url in (speech.stt, speech.tts):
            wait_until(partial(_is_up, gateway, url.partition("//")[2]))
        return gateway

    def process(self, name: str) -> psutil.Process:
        """That of a service."""
        return psutil.Process(self.speech.processes[name].pid)

    def kill_for_now(self, stack: ExitStack, name: str) -> None:
        """Until the stack is left: then it is there again, and the gateways know it."""
        self.speech.kill(name)
        label = (self.speech.stt if name == SPEECH_STT else self.speech.tts).partition("//")[2]
        for gateway in self.gateways:
            stack.callback(wait_until, partial(_is_up, gateway, label))
        stack.callback(self.speech.start_again, name)

    def is_at_rest(self) -> bool:
        """Whether nobody is answered, and nobody who has left is still connected."""
        return all(_is_at_rest(one) for one in self.gateways)

    def logs(self) -> str:
        """Of the gateways and both services, since they run."""
        folder = self.speech.key_file.parent
        return "".join(
            log.read_text() for log in (*self._folder.glob("log-*"), *folder.glob("*.log"))
        )


def _is_up(gateway: Gateway, label: str) -> bool:
    return gauge(gateway.client, f'moe_gateway_instance_up{{instance="{label}"}}') == 1


def _is_at_rest(gateway: Gateway) -> bool:
    used = gauge(gateway.client, "moe_gateway_in_flight") + gauge(
        gateway.client, "moe_gateway_waiting"
    )
    port = gateway.client.base_url.port
    lines = [
        one
        for one in psutil.Process(gateway.child.pid).net_connections("tcp")
        if one.laddr.port == port and one.status != psutil.CONN_LISTEN
    ]
    return used == 0 and len(lines) <= 1  # That of who asks here.


@pytest.fixture(scope="module")
def _house(speech: Speech, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with ExitStack() as stack:
        yield House(stack, tmp_path_factory.mktemp("gateway"), speech)


@pytest.fixture
def house(_house: House) -> Iterator[House]:
    """After each test nothing is left of it."""
    wait_until(_house.is_at_rest)
    tasks = [gauge(one.client, "moe_gateway_tasks") for one in _house.gateways]
    yield _house
    wait_until(_house.is_at_rest)
    for one, before in zip(_house.gateways, tasks, strict=False):
        wait_until(lambda one=one, before=before: _tasks(one) <= before)  # type: ignore[misc]
    logs = _house.logs().lower()
    assert [word for word in WORDS if word in logs] == []


def _tasks(gateway: Gateway) -> float:
    return gauge(gateway.client, "moe_gateway_tasks")


@contextmanager
def asking(gateway: Gateway) -> Iterator[tuple[openai.OpenAI, list[httpx2.Request]]]:
    """The official client as it comes, which asks three times what is worth it, and all it sent."""
    sent: list[httpx2.Request] = []
    http = httpx2.Client(event_hooks={"request": [sent.append]}, trust_env=False)
    url = f"{gateway.client.base_url}/v1"
    with openai.OpenAI(base_url=url, api_key=KEY, http_client=http, timeout=120) as client:
        yield client, sent


def silence(seconds: int) -> bytes:
    """A WAV file."""
    file = BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 1, 8000, 0, "NONE", ""))
        sound.writeframes(bytes([128]) * 8000 * seconds)
    return file.getvalue()


RECORDINGS: dict[str, tuple[bytes, Json, int, str | None]] = {
    "broken": (b"RIFF" + NOISE, {}, 400, "unreadable_audio"),
    "no sound": (SAID.encode(), {}, 400, "unreadable_audio"),
    "empty": (b"", {}, 400, "unreadable_audio"),
    "too long": (silence(605), {}, 413, "audio_too_long"),
    "too large for the ears": (bytes(26 * MEBIBYTE), {}, 413, "request_too_large"),
    "too large for the gateway": (bytes(40 * MEBIBYTE), {}, 413, "request_too_large"),
    "unknown model": (NOISE, {"model": "nobody"}, 404, "model_not_found"),
    "unknown format": (NOISE, {"response_format": "midi"}, 400, "invalid_value"),
    "format that does not stream": (
        NOISE, {"response_format": "srt", "stream": True}, 400, "unsupported_format",
    ),
    "odd stream": (NOISE, {"extra_body": {"stream": "perhaps"}}, 400, "invalid_type"),
    "unknown language": (NOISE, {"language": "xx"}, 400, "unsupported_language"),
}  # fmt: skip


@pytest.mark.parametrize("what", RECORDINGS)
def test_recording_that_cannot_be_heard_is_refused_once(house: House, what: str) -> None:
    """The client does not send again what would be refused again."""
    data, fields, status, code = RECORDINGS[what]
    asked = {"model": "whisper-1", "prompt": SAID, "file": ("a.wav", data), **fields}
    with (
        asking(house.gateway) as (client, sent),
        pytest.raises(openai.APIStatusError) as refused,
    ):
        client.audio.transcriptions.create(**asked)

    assert (refused.value.status_code, refused.value.code) == (status, code)
    assert refused.value.response.json()["error"]["message"]
    assert refused.value.response.headers["x-hearth-route"]
    assert len(sent) == 1


TEXTS: dict[str, tuple[Json, int, str | None]] = {
    "too long": ({"input": SAID * 200}, 400, "string_above_max_length"),
    "empty": ({"input": ""}, 400, "string_below_min_length"),
    "no words": ({"input": "…"}, 400, "nothing_to_say"),
    "no text": ({"input": [SAID]}, 400, "invalid_type"),
    "missing": ({"input": openai.omit}, 400, "missing_required_parameter"),
    "unknown voice": ({"voice": "bob"}, 400, "unknown_voice"),
    "unknown format": ({"response_format": "midi"}, 400, "invalid_value"),
    "unknown kind of stream": ({"stream_format": "midi"}, 400, "invalid_value"),
    "too fast": ({"speed": 9}, 400, "decimal_above_max_value"),
    "unknown model": ({"model": "nobody"}, 404, "model_not_found"),
    "no model": ({"model": openai.omit}, 400, "missing_required_parameter"),
}


@pytest.mark.parametrize("what", TEXTS)
def test_text_that_cannot_be_spoken_is_refused_once(house: House, what: str) -> None:
    """Before the first byte of sound, and with the field that is wrong."""
    fields, status, code = TEXTS[what]
    with (
        asking(house.gateway) as (client, sent),
        pytest.raises(openai.APIStatusError) as refused,
    ):
        client.audio.speech.create(**{**SAY, **fields})

    assert (refused.value.status_code, refused.value.code) == (status, code)
    assert refused.value.param == next(iter(fields))
    assert refused.value.response.headers["x-hearth-route"]
    assert len(sent) == 1


PART = b'--b\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
MODEL, FILE = PART % (b"model", b"", b"whisper-1"), PART % (b"file", b'; filename="a"', NOISE)
FORM = "multipart/form-data; boundary=b"
BODIES: dict[str, tuple[str, str, bytes]] = {
    "form without a file": (STT, FORM, MODEL + b"--b--\r\n"),
    "form without a model": (STT, FORM, FILE + b"--b--\r\n"),
    "file that is a text": (STT, FORM, MODEL + PART % (b"file", b"", b"x") + b"--b--\r\n"),
    "form without its end": (STT, FORM, MODEL + FILE[:-2]),
    "form of another boundary": (STT, "multipart/form-data; boundary=c", MODEL + FILE),
    "form without a boundary": (STT, "multipart/form-data", MODEL + FILE),
    "empty form": (STT, FORM, b""),
    "JSON for a form": (STT, "application/json", json.dumps(SAY).encode()),
    "sound for a form": (STT, "audio/wav", b"RIFF" + NOISE),
    "field that is too large": (STT, FORM, MODEL + PART % (b"prompt", b"", bytes(2 * MEBIBYTE))),
    "form for JSON": (TTS, FORM, MODEL + FILE),
    "half of JSON": (TTS, "application/json", json.dumps(SAY).encode()[:-9]),
    "JSON of another kind": (TTS, "application/json", json.dumps([SAID]).encode()),
}


@pytest.mark.parametrize("what", BODIES)
def test_body_of_a_wrong_kind_is_the_callers_mistake(house: House, what: str) -> None:
    """400 or 415 in OpenAI's shape, which no client sends again."""
    path, kind, body = BODIES[what]
    answer = house.gateway.client.post(path, content=body, headers={"content-type": kind})

    other_kind = what in ("JSON for a form", "sound for a form", "form for JSON")
    assert answer.status_code == (415 if other_kind else 400), answer.text
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert answer.json()["error"]["message"]
    assert "class '" not in answer.text
    assert ".:" not in answer.text


def head(path: str, *lines: str) -> bytes:
    """That of a request whose body is sent as a test likes."""
    told = (f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {KEY}", *lines)
    return "\r\n".join((*told, "", "")).encode()


UPLOADS = {
    "with a length": head(STT, f"Content-Type: {FORM}", "Content-Length: 9999999"),
    "in chunks": head(STT, f"Content-Type: {FORM}", "Transfer-Encoding: chunked") + b"fffff0\r\n",
    "of a text": head(TTS, "Content-Length: 9999999"),
}


@pytest.mark.parametrize("how", UPLOADS)
def test_caller_who_leaves_in_mid_upload_leaves_nothing(house: House, how: str) -> None:
    """Nobody was asked yet; what came is dropped with the connection."""
    before = heard(house.speech)
    with house.gateway.connect() as line:
        line.sendall(UPLOADS[how] + MODEL + FILE * 90)

    wait_until(house.is_at_rest)
    assert heard(house.speech) == before


def heard(speech: Speech) -> float:
    """How many requests the services have worked on."""
    found = 0.0
    for url in (speech.stt, speech.tts):
        with httpx2.Client(base_url=url, timeout=60, trust_env=False) as service:
            found += gauge(service, "speech_requests_total")
    return found


def test_upload_that_stops_is_answered_when_its_time_is_over(house: House) -> None:
    """408, which clients send again: the network may be better then."""
    hasty = house.open(BODY_SECONDS="0.5")
    with hasty.connect() as line:
        line.sendall(UPLOADS["with a length"] + MODEL)
        answer = b"".join(iter(lambda: line.recv(65536), b""))

    assert answer.startswith(b"HTTP/1.1 408")
    assert b'"code":"request_timeout"' in answer
    assert b"x-should-retry" not in answer


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
def test_caller_who_leaves_in_mid_answer_stops_the_voice(house: House, stream_format: str) -> None:
    """The next one need not wait for a sentence that nobody hears."""
    asked = {**SAY, "input": LONG, "stream_format": stream_format}
    with house.gateway.client.stream("POST", TTS, json=asked) as answer:
        next(answer.iter_raw())
    wait_until(house.is_at_rest)

    assert house.gateway.client.post(TTS, json=SAY).status_code == 200


def test_caller_who_leaves_while_the_ears_listen_leaves_nothing(house: House) -> None:
    """The whole form is there, and nobody waits for its words."""
    body = MODEL + PART % (b"file", b'; filename="a"', silence(60)) + b"--b--\r\n"
    with house.gateway.connect() as line:
        length = f"Content-Length: {len(body)}"
        line.sendall(head(STT, f"Content-Type: {FORM}", length) + body)
        wait_until(lambda: gauge(house.gateway.client, "moe_gateway_in_flight") > 0)
    wait_until(house.is_at_rest)

    assert house.gateway.client.post(STT, **form(silence(1))).status_code == 200


def form(sound: bytes, **fields: str) -> Any:
    return {"files": {"file": ("a.wav", sound)}, "data": {"model": "whisper-1", **fields}}


@contextmanager
def stopped(process: psutil.Process) -> Iterator[None]:
    """It does nothing any more, and says nothing of it, as what has lost its memory to swap."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("name", [SPEECH_STT, SPEECH_TTS])
def test_service_that_falls_silent_is_not_waited_for(house: House, name: str) -> None:
    """504, which the client does not send again: it would be silent again."""
    hasty = house.open(FIRST_BYTE_TIMEOUT="1")
    with (
        stopped(house.process(name)),
        asking(hasty) as (client, sent),
        pytest.raises(openai.InternalServerError) as refused,
    ):
        ask(client, name)

    assert refused.value.status_code == 504
    assert refused.value.code == "upstream_first_byte_timeout"
    assert len(sent) == 1


def ask(client: openai.OpenAI, name: str) -> object:
    """Of this service what is right."""
    if name == SPEECH_TTS:
        return client.audio.speech.create(**SAY)
    return client.audio.transcriptions.create(model="whisper-1", file=("a.wav", silence(1)))


def test_voice_that_falls_silent_in_mid_answer_ends_it(house: House) -> None:
    """Sound breaks; events say why."""
    hasty = house.open(IDLE_TIMEOUT="4")  # A busy machine takes a second to the first sound.
    voice = house.process(SPEECH_TTS)
    asked = {**SAY, "input": LONG}
    with hasty.client.stream("POST", TTS, json=asked) as answer:
        assert answer.status_code == 200, answer.read()
        pieces = answer.iter_raw()
        next(pieces)
        with stopped(voice), pytest.raises(httpx2.RemoteProtocolError):
            list(pieces)
    with hasty.client.stream("POST", TTS, json={**asked, "stream_format": "sse"}) as answer:
        lines = answer.iter_lines()
        next(lines)
        with stopped(voice):
            told = [json.loads(line[6:]) for line in lines if line]

    assert told[-1]["error"]["code"] == "upstream_idle_timeout"
    assert "speech.audio.done" not in {one.get("type") for one in told}


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
def test_voice_whose_engine_dies_in_mid_answer_ends_it(house: House, stream_format: str) -> None:
    """Half a sound must not look whole."""
    [engine] = house.process(SPEECH_TTS).children()
    asked = {**SAY, "input": LONG, "stream_format": stream_format}
    with house.gateway.client.stream("POST", TTS, json=asked) as answer:
        lines = answer.iter_lines() if stream_format == "sse" else answer.iter_raw()
        next(lines)
        engine.kill()
        if stream_format == "sse":
            told = [json.loads(str(line)[6:]) for line in lines if line]
            assert told[-1]["error"]["code"] == "engine_failed"
            assert "speech.audio.done" not in {one.get("type") for one in told}
        else:
            with pytest.raises(httpx2.RemoteProtocolError):
                list(lines)
    again = house.gateway.client
    wait_until(lambda: again.post(TTS, json=SAY).status_code == 200)


@pytest.mark.timeout(400)  # It waits for a service to start.
def test_ears_that_die_while_their_caller_waits_end_the_stream_with_an_error(house: House) -> None:
    """The status has gone out with a sign of life; the official client raises what comes then."""
    patient = house.open(KEEPALIVE_SECONDS="0.1")
    with asking(patient) as (client, sent), ExitStack() as stack:
        house.process(SPEECH_STT).send_signal(signal.SIGSTOP)
        stream = client.audio.transcriptions.create(
            model="whisper-1", file=("a.wav", silence(1)), stream=True
        )
        house.kill_for_now(stack, SPEECH_STT)
        with pytest.raises(openai.APIError, match=r"connection was (closed|reset)") as broken:
            list(stream)

    assert broken.value.code == "upstream_lost"
    assert len(sent) == 1


@pytest.mark.timeout(400)  # It waits for a service to start.
@pytest.mark.parametrize("name", [SPEECH_STT, SPEECH_TTS])
def test_service_that_dies_before_it_answers_is_asked_for_again(house: House, name: str) -> None:
    """502, then 503 as nobody is there: the client asks three times, and nothing hangs."""
    refused: list[openai.APIStatusError] = []

    def insist() -> None:
        with pytest.raises(openai.APIStatusError) as error:
            ask(client, name)
        refused.append(error.value)

    with asking(house.gateway) as (client, sent), ExitStack() as stack:
        house.process(name).send_signal(signal.SIGSTOP)
        insisting = threading.Thread(target=insist)
        insisting.start()
        wait_until(lambda: gauge(house.gateway.client, "moe_gateway_in_flight") > 0)
        house.kill_for_now(stack, name)
        insisting.join(60)

    assert refused[0].status_code == 503
    assert refused[0].response.json()["error"]["message"]
    assert len(sent) == 3
