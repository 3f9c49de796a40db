"""The Talk page with a microphone: a recording that Chromium takes for one."""

import io
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Page, WebSocket, expect

from tests.integration.speech.conftest import Speech, speech, speech_models
from tests.ui.conftest import QUIET, Visitor

__all__ = ["speech", "speech_models"]

PATIENCE = 90_000
QUESTION = "What is the capital of France?"

CAPTURE = Path(__file__).parent / "capture.js"
"""Keeps what comes by WebRTC, and where it comes from."""

LOUD = 0.02
FRAMES = 100
"""So many a second are measured by `CAPTURE`."""

RECORDING = 10 * FRAMES
"""After so many the recording has come once from its beginning to its end."""

PIECES = 50
"""So many a second go by a WebSocket."""


@pytest.fixture
def talking(visitor: Visitor, speech: Speech) -> Visitor:
    """A visitor of a house that hears and speaks."""
    house = visitor.house
    key = speech.key_file.read_text(encoding="ascii")
    (house.state / "service_key").write_text(key, encoding="ascii")
    urls = {"speech-stt": speech.stt, "speech-tts": speech.tts}
    house.more = {"services": house.more["services"] | urls}
    visitor.restart()
    return visitor


@pytest.fixture(scope="module")
def microphone(speech: Speech, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the microphone hears: the question, again and again."""
    samples, rate = soundfile.read(io.BytesIO(speech.spoken(QUESTION)))
    file = tmp_path_factory.mktemp("microphone") / "question.wav"
    soundfile.write(file, np.concatenate([np.zeros(rate * 4), samples, np.zeros(rate * 3)]), rate)
    return file


def with_microphone(file: Path) -> list[str]:
    """How Chromium is started with that microphone, and leave to use it."""
    return [
        *QUIET, "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={file}",
        "--autoplay-policy=no-user-gesture-required",
    ]  # fmt: skip


def to_talk(page: Page) -> Page:
    page.get_by_test_id("nav-talk").click()
    expect(page.get_by_test_id("talk-kept")).to_have_text(re.compile("No sound is kept"))
    return page


def becomes(page: Page, state: str) -> None:
    """Wait until the figure does this."""
    expect(page.locator("talk-figure")).to_have_attribute("data-state", state, timeout=PATIENCE)


def waits_for(page: Page, happened: Callable[[], bool]) -> None:
    """Until what the test sees of the page is that."""
    deadline = time.monotonic() + PATIENCE / 1000
    while not happened():
        assert time.monotonic() < deadline
        page.wait_for_timeout(100)


def loudness(page: Page, event: Literal["framesent", "framereceived"]) -> list[float]:
    """How loud each piece of sound is, 0 to 1, that goes or comes by a WebSocket from now on."""
    found = list[float]()

    def seen(data: str | bytes) -> None:
        if isinstance(data, bytes):
            sound = np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)
            found.append(float(abs(sound).max(initial=0)))

    def opened(socket: WebSocket) -> None:
        socket.on(event, seen)

    page.on("websocket", opened)
    return found


def stops(frames: Sequence[tuple[float, float]]) -> Iterator[float]:
    """For each time that somebody spoke over what was played: the seconds until it was silent.

    `frames` are those of `captured.loudness()`. Who begins has been silent for a second; what is
    played has stopped when it is silent for another.
    """
    heard, played = (np.array(sound) > LOUD for sound in zip(*frames, strict=True))
    for start in np.flatnonzero(heard):
        over = played[max(0, start - FRAMES // 5) : start].any()
        if start < FRAMES or heard[start - FRAMES : start].any() or not over:
            continue
        sounds = np.array([0, *np.flatnonzero(played[start:]), len(played) - start])
        last = np.flatnonzero(np.diff(sounds) >= FRAMES)
        if len(last):
            yield float(sounds[last[0]]) / FRAMES
