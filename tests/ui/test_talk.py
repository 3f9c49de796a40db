"""The Talk page: spoken to, spoken over, typed to, refused a microphone."""

import base64
import io
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile
from playwright.sync_api import Browser, Page, expect

from tests.integration.speech.conftest import Speech
from tests.ui.conftest import CHROMIUM, QUIET, Visitor, faults, launched, sign_in
from tests.ui.talking import (
    CAPTURE,
    FRAMES,
    LOUD,
    PATIENCE,
    PIECES,
    RECORDING,
    becomes,
    loudness,
    microphone,
    speech,
    speech_models,
    stops,
    talking,
    to_talk,
    waits_for,
    with_microphone,
)

__all__ = ["microphone", "speech", "speech_models", "talking"]

ANSWER = "The capital is Paris, and many people go there in the summer to see the river."
STORY = " ".join(f"The dragon number {n} sat on a hill and looked at the sea." for n in range(40))
INSECURE = "hearth.test"

WATCHED = """figure => {
  const running = () => figure.getAnimations({ subtree: true })
  const moving = () => running().flatMap(({ animationName }) => animationName ?? [])
  const name = () => figure.picture.getAttribute("aria-label")
  const look = () => shown.push([figure.dataset.state, name(), moving()])
  window.shown = []
  new MutationObserver(look).observe(figure, { attributeFilter: ["data-state"] })
  return moving()
}"""
"""Notes each state of the figure: its name, how it is read out, and which animations run."""

STOP_SECONDS = 3 * 0.4
"""How soon an answer shall be silent that somebody speaks over, with slack for a busy machine."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The whole browser, which looks for a microphone as it does at home."""
    with launched(CHROMIUM) as chromium:
        yield chromium


@pytest.fixture(scope="module")
def hearing(browser: Browser, microphone: Path) -> Iterator[Browser]:
    """A browser with that microphone, for which `INSECURE` is this machine."""
    chromium = browser.browser_type.launch(
        executable_path=CHROMIUM,
        args=[*with_microphone(microphone), f"--host-resolver-rules=MAP {INSECURE} 127.0.0.1"],
    )
    yield chromium
    chromium.close()


@pytest.fixture
def speaking(hearing: Browser, talking: Visitor) -> Visitor:
    """The visitor of that house at the browser with a microphone."""
    talking.browser = hearing
    return talking


def test_spoken_question_goes_by_webrtc_and_is_answered_aloud(
    speaking: Visitor, speech: Speech
) -> None:
    """From the microphone of a real browser to its loudspeaker: heard, answered, and never
    beyond this machine."""
    speaking.house.model.when("capital of").say(ANSWER, pause=0.02)
    page = speaking.enter()
    page.add_init_script(path=CAPTURE)
    page.reload()
    page = to_talk(page)
    page.get_by_test_id("talk-start").click()
    meter, deadline = page.get_by_test_id("talk-meter"), time.monotonic() + PATIENCE / 1000
    while meter.evaluate("meter => meter.value") < 0.05:
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)

    # A busy machine may miss the beginning of the first question; it comes again.
    turn = page.locator(".talk-turn").filter(has_text="capital of France").first
    expect(turn).to_be_visible(timeout=PATIENCE)
    mute = page.get_by_test_id("talk-mute")
    mute.click()
    expect(mute).to_have_attribute("aria-pressed", "true")
    muted = page.evaluate("captured.loudness().length")
    expect(turn.get_by_test_id("talk-answer")).to_have_text(ANSWER, timeout=PATIENCE)
    becomes(page, "speaking")
    becomes(page, "listening")

    assert page.locator("talk-page").get_attribute("data-way") == "webrtc"
    said_aloud(ANSWER, page, speech)
    expect(page.get_by_test_id("talk-time")).to_have_text(re.compile(r"\d"))
    nobody_else_is_asked(page)
    hears_again(page, since=muted)

    turn.get_by_test_id("talk-run").click()
    times = page.get_by_test_id("spoken").locator("dd")
    expect(times).to_have_count(8)
    seconds = [in_seconds(text) for text in times.all_inner_texts()]
    assert sum(seconds[:-1]) == pytest.approx(seconds[-1], abs=0.1)


def nobody_else_is_asked(page: Page) -> None:
    """The browser knows of no server that would tell it its address, and both ends are here."""
    ours = {each.address for found in psutil.net_if_addrs().values() for each in found}
    assert page.evaluate("captured.helpers()") == []
    assert set(page.evaluate("captured.peers()")) <= ours


def hears_again(page: Page, since: int) -> None:
    """The whole recording was played at a page that was muted at that moment, and nothing of it
    came through; when the page is not muted any more the question is heard again."""
    questions = page.locator(".talk-turn").filter(has_text="capital of France")
    silent = since + 2 * FRAMES  # What was under way has come by then.
    page.wait_for_function("end => captured.loudness().length > end", arg=silent + RECORDING)
    heard = [microphone for microphone, _ in page.evaluate("captured.loudness()")[silent:]]
    assert max(heard) < LOUD
    asked = questions.count()
    page.get_by_test_id("talk-mute").click()
    expect(questions.nth(asked)).to_be_visible(timeout=PATIENCE)


def said_aloud(text: str, page: Page, speech: Speech) -> None:
    """Wait until that came out of the loudspeaker, as far as our own ears can tell."""
    deadline = time.monotonic() + PATIENCE / 1000
    while part_of(text, heard := speech.heard(captured(page))) < 0.6:
        assert time.monotonic() < deadline, heard
        page.wait_for_timeout(1000)


def part_of(said: str, heard: str) -> float:
    """How much of what was said is in what was heard, 0 to 1."""
    wanted, found = (re.findall(r"[a-z]+", text.lower()) for text in (said, heard))
    same = SequenceMatcher(None, wanted, found, autojunk=False).get_matching_blocks()
    return sum(block.size for block in same) / len(wanted)


def captured(page: Page) -> bytes:
    """The sound that the browser was sent, as a WAV."""
    samples = np.frombuffer(base64.b64decode(page.evaluate("captured.sound()")), "<i2")
    file = io.BytesIO()
    soundfile.write(file, samples, page.evaluate("captured.rate"), format="WAV")
    return file.getvalue()


def in_seconds(text: str) -> float:
    """`320 ms` or `1.4 s`."""
    number, unit = text.split()
    return float(number) / (1000 if unit == "ms" else 1)


def test_who_speaks_over_the_answer_stops_it(speaking: Visitor) -> None:
    """The question comes again while the story is told: what the loudspeaker plays ends soon after
    its first sound, counted in samples of both, and a new answer begins. The page ends it: what a
    busy browser still holds of the answer lasts up to two seconds."""
    speaking.house.model.when(lambda request: True).say(STORY, pause=0.02)
    page = speaking.enter()
    page.add_init_script(path=CAPTURE)
    page.reload()
    page = to_talk(page)
    page.get_by_test_id("talk-start").click()
    becomes(page, "speaking")

    expect(page.locator(".talk-turn[data-cut]").first).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_test_id("talk-answer").nth(1)).to_contain_text("dragon", timeout=PATIENCE)
    frames = page.evaluate("captured.loudness()")
    deadline = time.monotonic() + 2 * PATIENCE / 1000
    while not quick(found := [*stops(frames)]):
        assert time.monotonic() < deadline, found
        page.wait_for_timeout(1000)
        frames += page.evaluate("since => captured.loudness(since)", len(frames))
    page.get_by_test_id("talk-start").click()
    becomes(page, "off")


def quick(seconds: Sequence[float]) -> bool:
    """Whether of some three stops after each other the middle one was soon enough: what else the
    machine does makes one of them late, and an agent that is slow all of them."""
    return any(
        statistics.median(three) <= STOP_SECONDS
        for three in zip(seconds, seconds[1:], seconds[2:], strict=False)
    )


def test_without_a_way_for_webrtc_sound_goes_by_the_websocket(speaking: Visitor) -> None:
    """A firewall must not be the end of talking, and nobody should have to choose. Who is muted is
    not heard on this way either, nor when the line was broken and is there again."""
    speaking.house.model.when(lambda request: True).say("Paris.")
    page = speaking.enter()
    blocked = "RTCPeerConnection.prototype.setRemoteDescription = async () => {}"
    page.add_init_script(script=blocked)
    page.reload()
    sent = loudness(page, "framesent")
    page = to_talk(page)
    page.get_by_test_id("talk-start").click()

    expect(page.get_by_test_id("talk-answer").first).to_have_text("Paris.", timeout=PATIENCE)
    assert page.locator("talk-page").get_attribute("data-way") == "websocket"
    becomes(page, "speaking")
    assert max(sent) > LOUD
    page.get_by_test_id("talk-mute").click()
    kill_worker()
    becomes(page, "waking")
    becomes(page, "listening")
    expect(page.get_by_test_id("talk-state")).to_contain_text("You are muted")
    silent = len(sent)
    enough = silent + RECORDING // FRAMES * PIECES
    waits_for(page, lambda: len(sent) > enough)
    assert max(sent[silent:]) == 0
    page.get_by_test_id("talk-mute").click()
    waits_for(page, lambda: max(sent[enough:]) > LOUD)


def kill_worker() -> None:
    """The one process in which the house hears and speaks."""
    for child in psutil.Process().children():
        if "pipecatapp.voice.worker" in child.cmdline():
            child.kill()


def test_typed_turn_is_answered_and_spoken(talking: Visitor) -> None:
    """The same conversation for whoever has no microphone, who can also end an answer; after Clear
    it is another one, and who comes when nobody else can be heard is told."""
    talking.house.model.when("hello").say("Good day to you, and welcome.", pause=0.02)
    talking.house.model.when("story").say(STORY, pause=0.02)
    talking.house.more["voice_sessions"] = 1
    talking.restart()
    page = to_talk(talking.enter())
    page.get_by_test_id("talk-model").select_option("expert/scripted")
    types(page, "hello")

    becomes(page, "speaking")
    expect(page.get_by_role("img", name="The agent is speaking")).to_be_visible()
    expect(page.get_by_test_id("talk-answer")).to_have_text("Good day to you, and welcome.")
    expect(page.get_by_test_id("talk-person")).to_have_text("hello")
    becomes(page, "listening")
    assert faults(page) == []
    assert talking.house.model.requests[-1].body["model"] == "scripted"
    types(page, "Tell me a story.")
    becomes(page, "speaking")
    page.get_by_test_id("talk-quiet").click()
    becomes(page, "listening")
    expect(page.locator(".talk-turn[data-cut]")).to_have_text(re.compile("dragon"))
    page.get_by_test_id("talk-clear").click()
    expect(page.get_by_test_id("talk-answer")).to_have_count(0)
    types(page, "again")
    expect(page.get_by_test_id("talk-answer")).to_have_text("again")
    asked = talking.house.model.requests[-1].body["messages"]
    assert [one["content"] for one in asked if one["role"] == "user"] == ["again"]

    is_told_to_wait(to_talk(talking.enter()))


def is_told_to_wait(page: Page) -> None:
    """What was typed into a full house is not gone."""
    types(page, "hello")
    expect(page.get_by_test_id("problem")).to_contain_text("Everybody is talking")
    expect(page.get_by_test_id("talk-heard")).to_have_text("hello")
    becomes(page, "trouble")


def types(page: Page, text: str) -> None:
    """Say it without a microphone."""
    page.get_by_test_id("talk-text").fill(text)
    page.get_by_test_id("talk-send").click()


@pytest.mark.proves("004-40")
def test_character_listens_thinks_and_speaks(talking: Visitor) -> None:
    """People see whether it is their turn. It is one drawing, each state of it named for those who
    do not see, and in each something of it moves."""
    talking.house.model.when("hello").say(ANSWER, pause=0.02)
    talking.house.model.when("trouble").refuse(500)
    page = to_talk(talking.enter())
    page.emulate_media(reduced_motion="no-preference")
    figure = page.locator("talk-figure")
    expect(figure.locator("svg[role=img] path")).not_to_have_count(0)
    expect(figure.locator("pre, canvas, img")).to_have_count(0)
    asleep = figure.evaluate(WATCHED)
    types(page, "hello")
    becomes(page, "speaking")
    becomes(page, "listening")
    types(page, "trouble")
    expect(page.get_by_test_id("problem")).to_contain_text("The model does not respond.")
    expect(page.locator(".talk-turn[data-failed]")).to_contain_text("trouble")
    shown = {state: (name, set(moves)) for state, name, moves in page.evaluate("shown")}

    always = {"figure-burn", "figure-blink"}
    assert asleep == []
    assert shown["listening"] == ("The agent is listening", always)
    assert shown["thinking"] == ("The agent is thinking", always | {"figure-think"})
    assert shown["speaking"] == ("The agent is speaking", always | {"figure-rise"})
    assert shown["trouble"] == ("The agent is in trouble", always)


def test_page_without_a_microphone_says_what_to_do(talking: Visitor) -> None:
    """A button that does nothing is the worst answer: there is none, or the page may not use it,
    and each is mended in another way. Typing still works."""
    page = to_talk(talking.enter())
    page.get_by_test_id("talk-start").click()

    expect(page.get_by_test_id("problem")).to_contain_text("No microphone was found. Plug one in")
    expect(page.get_by_test_id("talk-text")).to_be_enabled()

    chromium = talking.browser.browser_type.launch(
        executable_path=CHROMIUM,
        args=[*QUIET, "--use-fake-device-for-media-stream"],
        timeout=2 * PATIENCE,
    )
    talking.closing.callback(chromium.close)
    talking.browser = chromium
    talking.house.model.when("hello").say("Good day.")
    page = to_talk(talking.enter())
    page.get_by_test_id("talk-start").click()

    expect(page.get_by_test_id("problem")).to_contain_text("may not use the microphone. Allow it")
    types(page, "hello")
    expect(page.get_by_test_id("talk-answer")).to_have_text("Good day.")


def test_page_that_came_in_clear_says_how_to_get_a_microphone(speaking: Visitor) -> None:
    """Browsers give none to an address of the network without TLS, and do not say why."""
    context = speaking.browser.new_context()
    speaking.closing.callback(context.close)
    page = context.new_page()
    page.goto(speaking.house.address.replace("127.0.0.1", INSECURE))
    sign_in(page, speaking.house.key)
    page.get_by_test_id("composer").wait_for()
    to_talk(page)

    told = page.get_by_test_id("talk-insecure")
    expect(told).to_contain_text("ssh -L")
    expect(told).to_contain_text("https")
    assert faults(page) == []
