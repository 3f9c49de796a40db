"""Dictation and reading aloud over the API, without services of speech; `tests/ui` has them."""

import pytest

from pipecatapp.voice.messages import HEARD_RATE
from tests.integration.agent.conftest import House

SECOND = bytes(2 * HEARD_RATE)


@pytest.mark.parametrize(
    ("sound", "status", "code"),
    [
        (b"", 400, "invalid_audio"),
        (b"abc", 400, "invalid_audio"),
        (SECOND * 121, 400, "audio_too_long"),
        (SECOND, 503, "no_speech"),
    ],
)
def test_recording_that_cannot_be_heard_is_refused(
    house: House, sound: bytes, status: int, code: str
) -> None:
    """The page shows the reason beside the draft."""
    with house.client() as client:
        answer = client.post("/api/voice/transcription", content=sound)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("```\ncode\n```", 400, "nothing_to_say"),
        ("", 400, "string_below_min_length"),
        ("Hello.", 503, "no_speech"),
    ],
)
def test_text_that_cannot_be_read_aloud_is_refused(
    house: House, text: str, status: int, code: str
) -> None:
    """An answer of code only has no words; a house may have no speech."""
    with house.client() as client:
        answer = client.post("/api/voice/speech", json={"text": text})

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("path", ["transcription", "speech"])
def test_speech_needs_a_key(house: House, path: str) -> None:
    """The services of speech answer people of this house only."""
    with house.client(key="wrong") as client:
        assert client.post(f"/api/voice/{path}", json={"text": "x"}).status_code == 401
