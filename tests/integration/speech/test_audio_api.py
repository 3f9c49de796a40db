"""OpenAI's audio API, with the official client."""

import base64
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

import httpx2
import openai
import psutil
import pytest
import soundfile
from openai import OpenAI

from tests.integration.local.conftest import wait_for
from tests.integration.speech.conftest import KEY, Speech, is_ready
from tests.integration.speech.golden import SENTENCES, word_errors


@pytest.fixture
def ears(speech: Speech) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{speech.stt}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture
def mouth(speech: Speech) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{speech.tts}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def test_what_the_voice_says_is_heard_again(speech: Speech) -> None:
    """The defaults together, the voice varying as it does; the engines' own gate is narrower."""
    errors = [word_errors(text, speech.heard(speech.spoken(text))) for text in SENTENCES[:6]]

    assert sum(errors) / len(errors) <= 0.12, errors


@pytest.mark.parametrize("kind", ["mp3", "opus"])
def test_file_of_each_kind_goes_both_ways(
    ears: OpenAI, mouth: OpenAI, kind: Literal["mp3", "opus"]
) -> None:
    """Programs save what they get under the name that they asked for, and send it on."""
    sound = mouth.audio.speech.create(
        model="tts-1", voice="alloy", input=SENTENCES[0], response_format=kind
    ).content
    heard = ears.audio.transcriptions.create(model="whisper-1", file=(f"speech.{kind}", sound))

    assert word_errors(SENTENCES[0], heard.text) <= 0.2


def test_raw_samples_are_of_openais_rate_and_come_as_they_are_made(mouth: OpenAI) -> None:
    """Clients play `pcm` as 24 kHz, whatever the voice computes."""
    with mouth.audio.speech.with_streaming_response.create(
        model="tts-1", voice="en-us-joe", input=" ".join(SENTENCES[:3]), response_format="pcm"
    ) as answer:
        pieces = [len(piece) for piece in answer.iter_bytes()]

    assert len(pieces) > 1
    assert 5 < sum(pieces) / 2 / 24_000 < 12


def test_parts_have_their_times(ears: OpenAI, speech: Speech) -> None:
    """Subtitles and jumps into a recording need them."""
    sound = speech.spoken(SENTENCES[0])
    whole = ears.audio.transcriptions.create(
        model="whisper-1", file=("a.wav", sound), response_format="verbose_json"
    )
    subtitles = ears.audio.transcriptions.create(
        model="whisper-1", file=("a.wav", sound), response_format="srt"
    )

    assert whole.segments
    assert 1 < whole.duration < 4
    assert 0 <= whole.segments[0].start < whole.segments[0].end <= whole.duration
    assert subtitles.startswith("1\n00:00:0")


def test_transcript_streams_as_the_official_client_reads_it(ears: OpenAI, speech: Speech) -> None:
    """A live caption shows each part when it is known."""
    sound = speech.spoken(SENTENCES[0])
    events = list(ears.audio.transcriptions.create(model="any", file=("a.wav", sound), stream=True))
    deltas = [event.delta for event in events if event.type == "transcript.text.delta"]
    last = events[-1]

    assert last.type == "transcript.text.done"
    assert "".join(deltas) == last.text
    assert word_errors(SENTENCES[0], last.text) <= 0.2


def test_speech_streams_as_events(speech: Speech) -> None:
    """Browsers read events where they cannot play half a file."""
    asked = {"input": SENTENCES[0], "response_format": "pcm", "stream_format": "sse"}
    answer = httpx2.post(
        f"{speech.tts}/v1/audio/speech", json=asked, headers=speech.headers, timeout=60
    )
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
    sound = b"".join(base64.b64decode(e["audio"]) for e in events[:-1])

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert {e["type"] for e in events[:-1]} == {"speech.audio.delta"}
    assert events[-1]["type"] == "speech.audio.done"
    seconds, usage = len(sound) / 2 / 24_000, events[-1]["usage"]
    assert 1 < seconds < 4
    assert usage["input_tokens"] == len(SENTENCES[0].split())
    assert abs(usage["output_tokens"] - seconds * 20) <= 1
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_fields_that_clients_always_send_are_taken(speech: Speech) -> None:
    """The Agents SDK sends `instructions` with each sentence; newer clients name a voice by id."""
    asked = {
        "input": SENTENCES[0], "response_format": "pcm",
        "instructions": "Speak slowly.", "voice": {"id": "alloy"},
    }  # fmt: skip
    url = f"{speech.tts}/v1/audio/speech"
    answer = httpx2.post(url, json=asked, headers=speech.headers, timeout=60)
    unknown = httpx2.post(url, json={**asked, "voice": {"id": "nobody"}}, headers=speech.headers)

    assert answer.status_code == 200, answer.text
    assert unknown.json()["error"]["code"] == "unknown_voice"


def test_request_that_is_not_sent_as_json_is_told_the_header(speech: Speech) -> None:
    """curl's `-d` sends a form."""
    headers = {**speech.headers, "content-type": "application/x-www-form-urlencoded"}
    url = f"{speech.tts}/v1/audio/speech"
    answer = httpx2.post(url, content=b'{"input": "Hello."}', headers=headers, timeout=60)

    assert answer.status_code == 415
    assert "with the header Content-Type: application/json" in answer.json()["error"]["message"]


def test_service_tells_its_model(ears: OpenAI, mouth: OpenAI) -> None:
    """The gateway lists it, so that people see what hears and what speaks."""
    assert [model.id for model in ears.models.list()] == ["moonshine-tiny-en"]
    assert [model.id for model in mouth.models.list()] == ["en-us-joe"]


def test_silence_is_no_words(ears: OpenAI) -> None:
    """Nobody spoke, so nobody is answered."""
    quiet = io.BytesIO()
    soundfile.write(quiet, [0.0] * 32_000, 16_000, format="WAV")
    heard = ears.audio.transcriptions.create(model="m", file=("a.wav", quiet.getvalue()))

    assert heard.text == ""


def test_refusals_say_what_is_wrong(ears: OpenAI, mouth: OpenAI, speech: Speech) -> None:
    """Each is OpenAI's error with a sentence, before the first byte of sound."""
    with pytest.raises(openai.BadRequestError, match="cannot be read as audio"):
        ears.audio.transcriptions.create(model="m", file=("a.wav", b"a text"))
    with pytest.raises(openai.BadRequestError, match=r"supports only 'en'\. .*: whisper-base"):
        ears.audio.transcriptions.create(model="m", file=("a.wav", b"-"), language="de")
    with pytest.raises(openai.BadRequestError, match="times of segments only"):
        ears.audio.transcriptions.create(
            model="m", file=("a.wav", b"-"), timestamp_granularities=["word"],
            response_format="verbose_json",
        )  # fmt: skip
    with pytest.raises(openai.BadRequestError, match="'mp3', 'opus', 'flac', 'wav' or 'pcm'"):
        mouth.audio.speech.create(model="m", voice="alloy", input="Hello.", response_format="aac")
    with pytest.raises(openai.BadRequestError, match="no voice 'bob' here, only en-us-joe"):
        mouth.audio.speech.create(model="m", voice="bob", input="Hello.")
    with pytest.raises(openai.BadRequestError, match="no words"):
        mouth.audio.speech.create(model="m", voice="alloy", input="…")
    with (
        OpenAI(base_url=f"{speech.tts}/v1", api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError, match="Incorrect API key"),
    ):
        stranger.audio.speech.create(model="m", voice="alloy", input="Hello.")


def test_figures_tell_what_was_done_and_not_what_was_said(speech: Speech) -> None:
    """Operators need the times; nobody needs the words."""
    speech.heard(speech.spoken("Xylophone."))
    told = "".join(
        httpx2.get(f"{url}/metrics", timeout=60).text for url in (speech.stt, speech.tts)
    )

    assert 'speech_requests_total{duty="stt",outcome="done"}' in told
    assert 'speech_realtime_factor_count{duty="tts"}' in told
    assert "speech_first_sound_seconds_count" in told
    assert "xylophone" not in told.lower()


def test_voice_that_was_killed_speaks_again(speech: Speech) -> None:
    """One crash of the engine is one failed request, not a mute house."""
    service = psutil.Process(speech.processes["speech-tts"].pid)
    [voice] = service.children()
    assert voice.environ()["MALLOC_ARENA_MAX"] == "2"  # Else its memory grows by the thread.
    voice.kill()
    voice.wait(60)

    # Who asks before the service has noticed is told that it failed.
    spoken: list[bytes] = []

    def speaks() -> bool:
        with suppress(AssertionError):
            spoken.append(speech.spoken("I am back."))
        return bool(spoken)

    wait_for(speaks, "it speaks again", 120)
    assert is_ready(speech.tts)
    assert len(spoken[0]) > 10_000


def test_who_hears_next_gets_nothing_of_a_sentence_that_somebody_left(speech: Speech) -> None:
    """People interrupt: half of an answer that stays behind would be the next one's, for ever."""
    asked = {"input": ". ".join(SENTENCES), "response_format": "pcm"}
    with httpx2.Client(headers=speech.headers, timeout=120) as http:
        for _ in range(8):
            with http.stream("POST", f"{speech.tts}/v1/audio/speech", json=asked) as answer:
                next(answer.iter_bytes())

    errors = [word_errors(text, speech.heard(speech.spoken(text))) for text in SENTENCES[:2]]
    assert max(errors) <= 0.3, errors
