"""The chat hears and speaks: dictation into the draft, and an answer read aloud."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.ui.conftest import CHROMIUM, Visitor, ended, faults, say
from tests.ui.talking import (
    PATIENCE,
    microphone,
    speech,
    speech_models,
    talking,
    waits_for,
    with_microphone,
)

__all__ = ["microphone", "speech", "speech_models", "talking"]

PLAYED = """() => {
  window.played = 0
  const start = AudioBufferSourceNode.prototype.start
  AudioBufferSourceNode.prototype.start = function (...at) {
    window.played += this.buffer.duration
    return start.apply(this, at)
  }
}"""
"""Adds up the seconds of sound that the page plays."""


@pytest.fixture(scope="module")
def hearing(browser: Browser, microphone: Path) -> Iterator[Browser]:
    """A browser whose microphone asks for the capital of France."""
    arguments = with_microphone(microphone)
    chromium = browser.browser_type.launch(executable_path=CHROMIUM, args=arguments)
    yield chromium
    chromium.close()


def test_dictated_words_are_put_into_the_draft(hearing: Browser, talking: Visitor) -> None:
    """What was written stays, what was said follows it, and nothing is sent by itself."""
    talking.browser = hearing
    page = talking.enter()
    field, button = page.get_by_test_id("composer"), page.get_by_test_id("dictate")
    field.fill("Please tell me:")
    button.press("Enter")
    expect(button).to_have_accessible_name("Stop and write what you said")
    assert faults(page, every=True) == []
    page.wait_for_timeout(8000)  # the recording has 4 seconds of silence before the question
    button.press("Enter")

    expect(field).to_have_value(re.compile("Please tell me: .*France", re.I), timeout=PATIENCE)
    expect(button).to_have_accessible_name("Dictate")
    expect(field).to_be_focused()
    assert talking.house.model.requests == []


def test_answer_is_read_aloud_and_stops_at_once(talking: Visitor) -> None:
    """The button reads the words and no marks; pressed again, it is silent."""
    talking.house.model.when("story").say("Once there **was** a stove. " * 3)
    page = talking.enter()
    page.evaluate(PLAYED)
    turn = say(page, "Tell a story")
    ended(turn)
    button = turn.get_by_test_id("aloud")
    button.click()
    expect(button).to_have_accessible_name("Stop reading aloud")
    waits_for(page, lambda: page.evaluate("window.played") > 0.5)
    button.click()
    expect(button).to_have_accessible_name("Read aloud")
    button.click()
    expect(button).to_have_accessible_name("Read aloud", timeout=PATIENCE)
    assert page.evaluate("window.played") > 3


def test_house_without_speech_says_so(visitor: Visitor) -> None:
    """A button that does nothing would be pressed again and again."""
    page = visitor.enter()
    turn = say(page, "Hello")
    ended(turn)
    turn.get_by_test_id("aloud").click()

    expect(turn.get_by_test_id("not-aloud")).to_contain_text("without speech")
    assert faults(page, every=True) == []
