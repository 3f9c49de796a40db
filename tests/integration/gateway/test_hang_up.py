"""A caller who hangs up stops the work, whatever it was doing."""

import socket
import time

import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import (
    CHAT,
    Lab,
    chat,
    instances_of,
    raw,
    send_raw,
    wait_until,
)

SOON = 25.0
"""Seconds. On an idle machine it takes a few milliseconds; a busy one must not fail the test. What
is not stopped goes on for twice as long at least."""

MANY = 5000
"""Words; with their pauses they take 50 seconds at least."""


def stopped_after(model: ScriptedModel, hung_up: float) -> float:
    """Seconds from the hang-up until the server saw it."""
    model.wait_until(lambda m: m.aborted == 1)
    ended = model.requests[0].ended
    assert ended is not None
    return ended - hung_up


@pytest.mark.parametrize("stops_unary", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_server_stops_when_the_caller_hangs_up_before_the_first_word(
    lab: Lab, *, stream: bool, stops_unary: bool
) -> None:
    """A long prompt is read for seconds; nobody waits for it any more."""
    model = ScriptedModel(stops_unary=stops_unary)
    model.when("go").say("never", wait=60)
    gateway = lab.gateway(lab.expert(model, stops_unary=stops_unary))

    connection = send_raw(gateway, chat("go", stream=stream))
    model.wait_until(lambda m: m.running == 1)
    hung_up = time.monotonic()
    connection.close()

    assert stopped_after(model, hung_up) < SOON
    assert model.words_sent == 0


def test_server_stops_when_the_caller_hangs_up_in_mid_stream(lab: Lab) -> None:
    """A closed browser tab must free the slot."""
    model = ScriptedModel()
    model.when("go").say("word " * MANY, pause=0.01)
    gateway = lab.gateway(lab.expert(model))

    with gateway.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        lines = answer.iter_lines()
        next(lines)
        model.wait_until(lambda m: m.words_sent >= 5)
    hung_up = time.monotonic()

    assert stopped_after(model, hung_up) < SOON
    assert model.words_sent < MANY


@pytest.mark.parametrize("stops_unary", [True, False])
def test_server_stops_when_the_caller_of_a_whole_answer_hangs_up(
    lab: Lab, *, stops_unary: bool
) -> None:
    """Also where the engine itself would go on to the end: it was asked for a stream."""
    model = ScriptedModel(stops_unary=stops_unary)
    model.when("go").say("word " * MANY, pause=0.01)
    gateway = lab.gateway(lab.expert(model, stops_unary=stops_unary))

    connection = send_raw(gateway, chat("go"))
    model.wait_until(lambda m: m.requests != [] and m.words_sent >= 5)
    hung_up = time.monotonic()
    connection.close()

    assert stopped_after(model, hung_up) < SOON
    assert model.words_sent < MANY


@pytest.mark.parametrize("stream", [True, False])
def test_server_stops_when_the_caller_hangs_up_after_a_large_body(
    lab: Lab, *, stream: bool
) -> None:
    """A picture, or a long conversation: what comes in pieces is not read faster than it is taken,
    and who does not read does not see that the other side is gone."""
    model = ScriptedModel()
    model.when(lambda request: True).say("never", wait=60)
    gateway = lab.gateway(lab.expert(model))
    head, _, body = raw(gateway, chat("x" * 300_000, stream=stream)).partition(b"\r\n\r\n")

    with socket.create_connection((gateway.base_url.host, gateway.base_url.port or 0)) as caller:
        caller.sendall(head + b"\r\n\r\n")
        assert instances_of(gateway)  # So the head has been read alone.
        caller.sendall(body)
        model.wait_until(lambda m: m.running == 1)
        hung_up = time.monotonic()

    assert stopped_after(model, hung_up) < SOON


def test_hang_up_leaves_nothing_behind(lab: Lab) -> None:
    """No slot stays taken, it is counted as what it was, and the next caller is served."""
    model = ScriptedModel()
    model.when("go").say("word " * MANY, pause=0.01)
    gateway = lab.gateway(lab.expert(model, slots=16))

    connections = [send_raw(gateway, chat("go", stream=True)) for _ in range(10)]
    model.wait_until(lambda m: m.running == 10)
    for connection in connections:
        connection.close()
    model.wait_until(lambda m: m.aborted == 10)

    wait_until(lambda: instances_of(gateway)[0]["in_flight"] == 0)
    wait_until(lambda: 'model="small",status="gone"} 10.0' in gateway.get("/metrics").text)
    assert gateway.post(CHAT, json=chat("fine")).status_code == 200


def test_caller_who_leaves_while_sending_is_no_error(lab: Lab) -> None:
    """Half a request is nobody's request."""
    model = ScriptedModel()
    gateway = lab.gateway(lab.expert(model))
    connection = send_raw(gateway, chat("x" * 100))
    connection.close()
    half = send_raw(gateway, {})
    half.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 99\r\n\r\n{")
    half.close()

    assert gateway.post(CHAT, json=chat("fine")).status_code == 200
