"""Talking with the agent: real sound in real time, real engines; only the model is scripted."""

import json
import threading

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.integration.voice.conftest import SECONDS, Home

QUESTION = "What is the capital of France?"
ANSWER = "It is Paris, and many people go there in the summer to see the river."
STORY = " ".join(f"The dragon number {n} sat on a hill and looked at the sea." for n in range(20))


async def test_spoken_question_is_answered_with_speech(home: Home) -> None:
    """The whole round: heard, asked, answered, spoken, and kept as a run."""
    home.house.model.when(lambda request: True).say(ANSWER, pause=0.02)
    async with home.caller() as caller:
        await caller.speak(home.voice_of(QUESTION))
        async with caller.quiet():
            heard = await caller.hears("heard")
            turn = await caller.hears("turn")
            asked = await caller.hears("asked")
            await caller.hears("answered")
            await home.said(ANSWER, caller)
    said = "".join(m["text"] for _, m in caller.told if m["type"] == "words")
    with home.house.client() as client:
        run = client.get(f"/api/runs/{asked['run']}").json()
        figures = client.get("/metrics").text
    [whole] = home.figures("voice_v2v_seconds_sum")

    assert "capital" in heard["text"].lower()
    assert said == ANSWER
    assert turn["run"] == asked["run"] == run["id"]
    assert run["status"] == "done"
    assert run["inputs"]["text"] == asked["text"]
    assert all(seconds >= 0 for seconds in turn["stages"].values())
    assert "voice_v2v_seconds_count 1.0" in figures
    assert 'voice_turns_total{kind="spoken"} 1.0' in figures
    assert sum(home.figures("voice_stage_seconds_sum")) == pytest.approx(whole)
    assert home.figure("voice_worker_lag_seconds_count") >= 1
    assert home.figure("voice_worker_resident_bytes") > 50_000_000
    assert "france" not in figures.lower()


async def test_answer_is_spoken_while_it_is_still_being_written(home: Home) -> None:
    """Nobody waits for the end of a long answer to hear its beginning."""
    goes_on = threading.Event()
    home.house.model.when("France").say(ANSWER, held=goes_on, held_after=8)
    async with home.caller() as caller, caller.quiet():
        await caller.socket.send(json.dumps({"type": "text", "text": QUESTION}))
        await caller.sounds()
        before = caller.types()
        goes_on.set()
        await caller.hears("answered")

    assert "answered" not in before


async def test_who_speaks_over_the_answer_stops_it(home: Home) -> None:
    """An answer that cannot be stopped is a lecture."""
    home.house.model.when(lambda request: True).say(STORY, pause=0.02).say("Paris.")
    story, question = home.voice_of("Tell me a long story."), home.voice_of(QUESTION)
    async with home.caller() as caller:
        await caller.speak(story)
        async with caller.quiet():
            await caller.sounds()
            first = await caller.hears("asked")
        before = len(caller.told)
        await caller.speak(question)
        async with caller.quiet():
            await caller.hears("interrupted", after=before)
            second = await caller.hears("asked", after=before)
            await caller.hears("answered", after=before, run=second["run"])
    with home.house.client() as client:
        stopped = client.get(f"/api/runs/{first['run']}").json()

    assert home.figure("voice_interruptions_total") == 1
    assert home.figure("voice_barge_in_seconds_count") == 1
    assert 0 < home.figure("voice_barge_in_seconds_sum") < SECONDS
    assert first["run"] != second["run"]
    assert stopped["status"] in ("cancelled", "done")
    assert "capital" in second["text"].lower()


async def test_typed_turn_is_spoken_too_and_goes_on_with_the_conversation(home: Home) -> None:
    """Who cannot speak now types, and is answered as before. What was being spoken stops, although
    it had been written to its end: models write faster than voices speak."""
    home.house.model.when("Ann").say(f"Hello Ann. {STORY}")
    home.house.model.when("name").say("Your name is Ann.")
    async with home.caller() as caller, caller.quiet():
        for number, text in enumerate(["I am Ann.", "What is my name?"]):
            before = len(caller.told)
            await caller.socket.send(json.dumps({"type": "text", "text": text}))
            await caller.hears("answered", after=before)
            await caller.hears("state", after=before, state="speaking")
            assert caller.types().count("asked") == number + 1
    last = home.house.model.requests[-1].body["messages"]

    assert [m["content"] for m in last if m["role"] == "user"] == ["I am Ann.", "What is my name?"]
    assert home.figure('voice_turns_total{kind="typed"}') == 2
    assert home.figure("voice_interruptions_total") == 1
    assert home.figure("voice_barge_in_seconds_count") == 0  # Nobody's voice stopped it.


async def test_full_house_says_so(home: Home) -> None:
    """A third voice would make the first two stutter; it is told, and finds a place later."""
    headers = {"authorization": f"Bearer {home.house.key}"}
    async with (
        home.caller(),
        home.caller(),
        connect(home.url, additional_headers=headers) as third,
    ):
        told = json.loads(await third.recv())
        await third.wait_closed()
    await home.empty()
    async with home.caller() as later:
        types = later.types()

    assert (told["type"], third.close_code) == ("busy", 1013)
    assert "ready" in types


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"origin": "https://evil.example", "cookie": "SESSION"},
    ],
)
async def test_stranger_and_foreign_page_get_no_microphone(
    home: Home, headers: dict[str, str]
) -> None:
    """A page of somebody else, open in the same browser, must not listen in."""
    with httpx2.Client(base_url=home.house.address) as browser:
        browser.post("/api/session", json={"key": home.house.key}).raise_for_status()
        session = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    given = {n: v.replace("SESSION", session) for n, v in headers.items()}

    with pytest.raises(InvalidStatus, match="403"):
        async with connect(home.url, additional_headers=given):
            pass


async def test_page_of_ours_is_let_in_after_a_login(home: Home) -> None:
    """What the browser has is a cookie."""
    with httpx2.Client(base_url=home.house.address) as browser:
        browser.post("/api/session", json={"key": home.house.key}).raise_for_status()
        session = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    given = {"cookie": session, "origin": home.house.address}

    async with connect(home.url, additional_headers=given) as socket:
        await socket.send('{"type": "hello"}')
        told = json.loads(await socket.recv())

    assert told == {"type": "waking", "heard_rate": 16_000, "spoken_rate": 24_000}
