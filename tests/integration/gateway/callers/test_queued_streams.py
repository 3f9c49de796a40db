"""What a stream says of itself whose head goes out before anybody has answered."""

import threading
from contextlib import ExitStack

import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import (
    CHAT,
    Json,
    Lab,
    chat,
    gauge,
    instances_of,
    send_raw,
    wait_until,
)

RESPONSES = "/v1/responses"


def told_late(text: str) -> Json:
    """The headers that a stream tells in comments before its first event."""
    comments = [line[2:] for line in text.partition("data: ")[0].splitlines() if line]
    return dict(one.split(": ", 1) for one in comments if one.startswith("x-hearth-"))


class Queued:
    """A stream that waits as the second in the queue of an expert with one slot."""

    def __init__(self, lab: Lab, stack: ExitStack, path: str = CHAT) -> None:
        model, self.held = ScriptedModel("small-7b"), threading.Event()
        model.when("first").say("done", held=self.held)
        model.when("second").say("here it is")
        expert = lab.expert(model, slots=1, aliases=["tiny"])
        self.gateway = lab.gateway(expert, keepalive_seconds=0.05)
        wait_until(lambda: instances_of(self.gateway)[0]["model"] == "small-7b")
        stack.enter_context(send_raw(self.gateway, chat("first")))
        model.wait_until(lambda m: m.running == 1)
        self.ahead = stack.enter_context(send_raw(self.gateway, chat("first")))
        wait_until(lambda: gauge(self.gateway, "moe_gateway_waiting") == 1)
        asked = chat("second", "tiny", stream=True)
        if path == RESPONSES:
            asked = {"model": "tiny", "input": "second", "stream": True}
        self.answer = stack.enter_context(self.gateway.stream("POST", path, json=asked))
        self._pieces = self.answer.iter_text()

    def until(self, words: str) -> str:
        """What comes until these words have; all of the rest when they never do."""
        text = ""
        while words not in text and (piece := next(self._pieces, "")):
            text += piece
        return text

    def rest(self) -> str:
        """What comes when the slot is free."""
        self.held.set()
        return "".join(self._pieces)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
def test_stream_says_that_it_is_queued_and_who_answers_when_it_is_known(
    lab: Lab, path: str
) -> None:
    """Every answer says where it comes from; this one's head is out before anybody was chosen."""
    with ExitStack() as stack:
        queued = Queued(lab, stack, path)
        text = queued.rest()
        headers = queued.answer.headers

    assert (headers["x-hearth-expert"], headers["x-hearth-route"]) == ("tiny", "queued")
    told = told_late(text)
    assert int(told.pop("x-hearth-queued-ms")) > 0
    assert told == {
        "x-hearth-expert": "small",
        "x-hearth-route": "alias of small",
        "x-hearth-model": "small-7b",
    }
    assert "here " in text
    assert ("data: [DONE]" if path == CHAT else "response.completed") in text


def test_stream_sees_its_place_come_nearer(lab: Lab) -> None:
    """So a person knows that it is worth to wait; the metrics know where requests came in."""
    with ExitStack() as stack:
        queued = Queued(lab, stack)
        assert ": waiting, place 2\n\n" in queued.until(": waiting, place 2\n\n")
        queued.ahead.close()
        assert ": waiting, place 1\n\n" in queued.until(": waiting, place 1\n\n")
        queued.rest()
        places = gauge(queued.gateway, "moe_gateway_queue_place_sum")
        counted = gauge(queued.gateway, "moe_gateway_queue_place_count")

    assert (places, counted) == (1 + 2, 2)


def test_head_before_a_failover_is_corrected(lab: Lab) -> None:
    """It can only name who is being asked; the one that answers is told when it does."""
    first, second, held = ScriptedModel(), ScriptedModel(), threading.Event()
    first.when("go").refuse(503, "Loading model", held=held)
    second.when("go").say("second here")
    gateway = lab.gateway(
        lab.expert(first, "cheap", cost=1), lab.expert(second, "dear", cost=2),
        keepalive_seconds=0.05,
    )  # fmt: skip

    with gateway.stream("POST", CHAT, json=chat("go", "auto", stream=True)) as answer:
        held.set()  # A sign of life has come, or there would be no answer yet.
        text = answer.read().decode()

    assert answer.headers["x-hearth-expert"] == "cheap"
    assert answer.headers["x-hearth-route"] == "auto: cheapest of 2; not answered yet"
    told = told_late(text)
    assert told["x-hearth-expert"] == "dear"
    assert told["x-hearth-route"].startswith("auto: cheapest of 2; not cheap@")
    assert told["x-hearth-route"].endswith(": busy")
    assert text.rstrip().endswith("[DONE]")


def test_answers_header_of_a_run_is_told_late_too(lab: Lab) -> None:
    """An agent names its run in a header, which comes when the head has gone out."""
    agent, held = ScriptedModel("agent"), threading.Event()
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "x"}}]}\n\ndata: [DONE]\n\n'
    headers = {"content-type": "text/event-stream", "x-hearth-run": "run-7"}
    agent.when("go").answer(event, headers=headers, held=held)
    gateway = lab.gateway(lab.agent(agent), keepalive_seconds=0.05, ready=False)
    wait_until(lambda: "agent" in gateway.get("/v1/models").text)

    with gateway.stream("POST", CHAT, json=chat("go", "agent", stream=True)) as answer:
        held.set()
        text = answer.read().decode()

    assert "x-hearth-run" not in answer.headers
    assert told_late(text)["x-hearth-run"] == "run-7"
