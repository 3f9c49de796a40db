"""Servers that fail: before the first byte another one answers, after it the caller is told."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx2
import pytest

from hearth.openai_api.scripts import Break
from hearth.openai_api.testing import ScriptedModel
from tests.conftest import served
from tests.integration.gateway.conftest import (
    CHAT,
    Json,
    Lab,
    chat,
    events,
    gauge,
    instances_of,
    text_of,
    wait_until,
)


def broken(*, how: Break) -> ScriptedModel:
    """A model that breaks off before its first byte, but looks well."""
    model = ScriptedModel()
    model.when("go").lose(how=how)
    return model


def loading() -> ScriptedModel:
    """A model that still answers its health check, but not its requests."""
    model = ScriptedModel()
    model.when("go").refuse(503, "Loading model")
    return model


def counted(gateway: httpx2.Client, name: str, instance: str) -> float:
    """A metric of one instance, summed over its other labels."""
    lines = gateway.get("/metrics").text.splitlines()
    mine = [one for one in lines if one.startswith(f"{name}{{") and f'"{instance}"' in one]
    return sum(float(line.split()[-1]) for line in mine)


def test_fallback_that_cannot_is_not_asked(lab: Lab) -> None:
    """One expert that fails alone must not hand its tools to one that ignores them."""
    plain = ScriptedModel()
    plain.when("go").say("no tools here")
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    spare = lab.expert(plain, "plain", tools="none")
    gateway = lab.gateway(lab.expert(loading(), fallback=["plain"]), spare)

    words = gateway.post(CHAT, json=chat("go"))
    tools = gateway.post(CHAT, json=chat("go", tools=[tool]))

    assert (words.status_code, words.headers["x-hearth-expert"]) == (200, "plain")
    assert tools.status_code == 503
    assert len(plain.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (lambda: broken(how="reset"), "upstream_lost"),
        (lambda: broken(how="close"), "upstream_lost"),
        (loading, "busy"),
    ],
)
def test_next_instance_answers_when_the_first_fails_before_its_first_byte(
    lab: Lab, first: Callable[[], ScriptedModel], reason: str, *, stream: bool
) -> None:
    """The caller notices nothing but the reason in a header."""
    second = ScriptedModel()
    second.when("go").say("second here")
    gateway = lab.gateway(lab.expert(first()), lab.expert(second))

    with gateway.stream("POST", CHAT, json=chat("go", stream=stream)) as answer:
        answer.read()

    assert answer.status_code == 200
    assert "second" in answer.text
    assert answer.headers["x-hearth-route"].endswith(f": {reason}")
    failed, answered = (one["instance"] for one in instances_of(gateway))
    assert counted(gateway, "moe_gateway_failovers_total", failed) == 1
    assert counted(gateway, "moe_gateway_failovers_total", answered) == 0


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_next_instance_answers_what_the_first_has_no_time_for(lab: Lab, status: int) -> None:
    """These say something about a server, not about the request."""
    first = ScriptedModel()
    first.when("go").refuse(status, "Not now.")
    gateway = lab.gateway(lab.expert(first), lab.expert(ScriptedModel()))

    answer = gateway.post(CHAT, json=chat("go"))

    assert answer.status_code == 200
    assert answer.headers["x-hearth-route"].endswith(": busy")
    assert len(first.requests) == 1


def test_fallback_is_not_asked_while_the_first_is_merely_busy(lab: Lab) -> None:
    """Who names an expert waits for it: the other one is for when it is down."""
    model, spare, held = ScriptedModel(), ScriptedModel(), threading.Event()
    model.when("go").say("done", held=held)
    gateway = lab.gateway(
        lab.expert(model, slots=1, fallback=["spare"]), lab.expert(spare, "spare")
    )
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(gateway.post, CHAT, json=chat("go")) for _ in range(2)]
        try:
            wait_until(lambda: gauge(gateway, "moe_gateway_waiting") == 1)
        finally:
            held.set()
        answers = [one.result() for one in asked]

    assert {answer.headers["x-hearth-expert"] for answer in answers} == {"small"}
    assert spare.requests == []


def test_servers_that_are_gone_use_up_no_failovers(lab: Lab) -> None:
    """A rack that loses its power: what was sent to nobody is no load, however often that is."""
    with ExitStack() as running:
        url = running.enter_context(served(ScriptedModel().app))
        gone = [lab.at(url, expert=f"gone-{number}") for number in range(14)]
        well = lab.expert(ScriptedModel(), "well", cost=9)
        gateway = lab.gateway(*gone, well, check_interval=3600)

    answer = gateway.post(CHAT, json=chat("go", "auto"))

    assert answer.status_code == 200
    assert answer.headers["x-hearth-expert"] == "well"
    assert answer.headers["x-hearth-route"].count(": upstream_unreachable") == 14


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [400, 502])
def test_error_says_who_gave_it_and_why_they_were_asked(
    lab: Lab, status: int, *, stream: bool
) -> None:
    """Refused by the server, or lost on the way: people look for the reason there first."""
    model = ScriptedModel("small-7b")
    rule = model.when("go")
    if status == 400:
        rule.refuse(400, "No.")
    else:
        rule.lose(how="reset")
    gateway = lab.gateway(lab.expert(model, aliases=["tiny"]))
    wait_until(lambda: instances_of(gateway)[0]["model"] == "small-7b")

    answer = gateway.post(CHAT, json=chat("go", "tiny", stream=stream))

    assert answer.status_code == status
    told = [answer.headers[f"x-hearth-{name}"] for name in ("expert", "model", "route")]
    assert told == ["small", "small-7b", "alias of small"]


def test_instance_that_went_away_is_out_with_the_first_request(lab: Lab) -> None:
    """The health check is not waited for: the first refused connection tells."""
    with ExitStack() as running:
        url = running.enter_context(served(ScriptedModel().app))
        gateway = lab.gateway(lab.at(url, expert="small"), check_interval=3600)
        assert gateway.post(CHAT, json=chat("x")).status_code == 200
    first, second = (gateway.post(CHAT, json=chat("x")) for _ in range(2))

    assert (first.status_code, second.status_code) == (503, 503)
    assert first.json()["error"]["code"] == "upstream_unreachable"
    assert second.json()["error"]["code"] == "model_unavailable", "it was asked again"
    refused = f"{url.removeprefix('http://')}: Connection refused"
    assert refused in first.json()["error"]["message"]
    assert refused in second.json()["error"]["message"]
    assert first.headers["retry-after"] == second.headers["retry-after"] == "1"


def test_auto_goes_on_to_the_next_expert(lab: Lab) -> None:
    """`auto` asks for an answer, not for a certain expert."""
    cheap = lab.expert(broken(how="reset"), "cheap", cost=1)
    dear = lab.expert(ScriptedModel(), "dear", cost=2)
    gateway = lab.gateway(dear, cheap)

    answer = gateway.post(CHAT, json=chat("go", "auto"))

    assert answer.status_code == 200
    assert answer.headers["x-hearth-expert"] == "dear"


def test_last_instances_own_words_come_through(lab: Lab) -> None:
    """When all are busy the caller reads why."""
    gateway = lab.gateway(lab.expert(loading()), lab.expert(loading()))

    answer = gateway.post(CHAT, json=chat("go"))

    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == "Loading model"


@pytest.mark.parametrize("stream", [False, True])
def test_server_cannot_send_a_client_to_sleep(lab: Lab, *, stream: bool) -> None:
    """Its wish to be left alone is passed back, but not for longer than a minute."""
    model = ScriptedModel()
    wait = {"retry-after": "3600", "retry-after-ms": "3600000"}
    model.when("go").refuse(503, "Loading model", headers=wait)
    gateway = lab.gateway(lab.expert(model))

    answer = gateway.post(CHAT, json=chat("go", stream=stream))

    assert answer.status_code == 503
    assert answer.headers.get_list("retry-after") == ["60"]
    assert answer.headers.get_list("retry-after-ms") == ["60000"]


@pytest.mark.parametrize("status", [400, 404, 422, 500])
def test_error_about_the_request_is_not_tried_elsewhere(lab: Lab, status: int) -> None:
    """It would come again, and cost twice."""
    first, second = ScriptedModel(), ScriptedModel()
    first.when("go").refuse(status, "No.", code="why", headers={"x-should-retry": "false"})
    gateway = lab.gateway(lab.expert(first, slots=9), lab.expert(second, slots=9))

    answer = gateway.post(CHAT, json=chat("go"))

    assert answer.status_code == status
    assert answer.json()["error"]["code"] == "why"
    assert answer.headers["x-should-retry"] == "false"
    assert len(second.requests) == 0


def test_failure_of_a_server_that_would_come_again_is_not_tried_elsewhere(lab: Lab) -> None:
    """A 500 is most often about the request: a whole house would be asked for one bad prompt."""
    first, second = ScriptedModel(), ScriptedModel()
    first.when("go").refuse(500, "No.")
    gateway = lab.gateway(lab.expert(first, slots=9), lab.expert(second, slots=9))

    answer = gateway.post(CHAT, json=chat("go"))

    assert answer.status_code == 500
    assert (len(first.requests), len(second.requests)) == (1, 0)


def test_agent_is_never_asked_twice(lab: Lab) -> None:
    """Its tools may have done something before the connection broke."""
    agents = [ScriptedModel("agent"), ScriptedModel("agent")]
    for agent in agents:
        agent.when("go").lose(how="reset")
    gateway = lab.gateway(*(lab.agent(agent) for agent in agents))

    answer = gateway.post(CHAT, json=chat("go", "agent"))

    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "upstream_lost"
    assert sum(len(agent.requests) for agent in agents) == 1


def test_run_that_failed_is_not_run_again_and_says_nothing_about_its_agent(lab: Lab) -> None:
    """Another agent would do it all a second time; and one caller's failures close no door."""
    agents = [ScriptedModel("agent"), ScriptedModel("agent")]
    for agent in agents:
        agent.when("go").refuse(502, "It failed.", headers={"x-should-retry": "false"})
    gateway = lab.gateway(*(lab.agent(agent) for agent in agents), circuit_failures=1)

    answers = [gateway.post(CHAT, json=chat("go", "agent")) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [502] * 3
    assert sum(len(agent.requests) for agent in agents) == 3
    assert {one["circuit"] for one in instances_of(gateway)} == {"closed"}


@pytest.mark.parametrize("how", ["reset", "close", "malformed"])
def test_failure_after_the_first_byte_is_the_last_event(lab: Lab, how: Break) -> None:
    """A stream that merely ends looks like success to every client; `[DONE]` would even say so."""
    first, second = ScriptedModel(), ScriptedModel()
    first.when("go").lose("one two three", after=2, how=how, pause=0.05)
    gateway = lab.gateway(lab.expert(first), lab.expert(second))

    with gateway.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        data = b"".join(answer.iter_raw())
        found = [part for part in data.decode().split("\n\n") if part]

    assert answer.status_code == 200
    assert '"code":"upstream_lost"' in found[-1]
    assert '"content":"two "' in data.decode()
    assert "[DONE]" not in data.decode()
    assert len(second.requests) == 0


def test_servers_own_error_event_gets_no_second_one(lab: Lab) -> None:
    """It says more than ours would."""
    model = ScriptedModel()
    model.when("go").lose("one two", after=1, how="error")
    gateway = lab.gateway(lab.expert(model))

    with gateway.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        found = events(answer)

    assert text_of(found) == "one "
    assert [event["error"]["message"] for event in found if "error" in event] == [
        "The script broke."
    ]


def test_connection_of_the_caller_lives_on_after_a_broken_stream(lab: Lab) -> None:
    """The stream ended as HTTP, so the client's pool stays sound."""
    model = ScriptedModel()
    model.when("go").lose("one two", after=1, how="reset", pause=0.05)
    gateway = lab.gateway(lab.expert(model))

    gateway.post(CHAT, json=chat("go", stream=True))
    assert gateway.post(CHAT, json=chat("fine")).status_code == 200


def test_answer_that_breaks_in_the_middle_is_asked_again_when_it_is_not_streamed(lab: Lab) -> None:
    """The caller has got no byte of it yet."""
    first = ScriptedModel()
    first.when("go").lose("one two three", after=2, how="close")
    gateway = lab.gateway(lab.expert(first), lab.expert(ScriptedModel()))

    answer = gateway.post(CHAT, json=chat("go"))

    assert answer.json()["choices"][0]["message"]["content"] == "go"


def test_one_callers_failure_does_not_touch_the_others(lab: Lab) -> None:
    """A stream that is under way goes on while others break."""
    model = ScriptedModel()
    model.when("long").say("word " * 20, pause=0.02)
    model.when("break").lose("a b", after=1, how="reset", pause=0.01)
    gateway = lab.gateway(lab.expert(model))

    with gateway.stream("POST", CHAT, json=chat("long", stream=True)) as answer:
        for _ in range(3):
            gateway.post(CHAT, json=chat("break", stream=True))
            gateway.post(CHAT, json=chat("x", "no-such-model"))
            gateway.post(CHAT, content=b"{")
        found = events(answer)

    assert text_of(found) == "word " * 20
    assert found[-1] == "[DONE]"


class TestTimeouts:
    """Each silence has a limit and an error code of its own."""

    def refused(self, answer: httpx2.Response) -> Json:
        assert answer.headers["x-should-retry"] == "false"
        error: Json = answer.json()["error"]
        return error

    def test_before_the_first_byte(self, lab: Lab) -> None:
        """Official clients must not send three times what is too slow once."""
        model, other = ScriptedModel(), ScriptedModel()
        model.when("go").hang()
        gateway = lab.gateway(lab.expert(model), lab.expert(other), first_byte_timeout=1)

        answer = gateway.post(CHAT, json=chat("go"))

        assert answer.status_code == 504
        assert self.refused(answer)["code"] == "upstream_first_byte_timeout"
        assert len(other.requests) == 0
        model.wait_until(lambda m: m.aborted == 1)

    def test_within_a_stream(self, lab: Lab) -> None:
        """The caller keeps what came, and is told that it is not all."""
        model = ScriptedModel()
        model.when("go").hang("one two", after=1)
        gateway = lab.gateway(lab.expert(model), idle_timeout=2)

        with gateway.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
            found = events(answer)

        assert text_of(found) == "one "
        assert found[-1]["error"]["code"] == "upstream_idle_timeout"
        model.wait_until(lambda m: m.aborted == 1)

    def test_within_an_assembled_answer(self, lab: Lab) -> None:
        """Nothing has gone out yet, so it is an HTTP error."""
        model = ScriptedModel()
        model.when("go").hang("one two", after=1)
        gateway = lab.gateway(lab.expert(model, stops_unary=False), idle_timeout=2)

        answer = gateway.post(CHAT, json=chat("go"))

        assert answer.status_code == 504
        assert self.refused(answer)["code"] == "upstream_idle_timeout"

    def test_slow_but_steady_answers_are_left_alone(self, lab: Lab) -> None:
        """The limit is for silence, not for length."""
        model = ScriptedModel()
        model.when("go").say("a b c d e f g h", pause=0.5)
        gateway = lab.gateway(lab.expert(model), idle_timeout=3, first_byte_timeout=60)
        start = time.monotonic()

        with gateway.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
            assert events(answer)[-1] == "[DONE]"

        assert time.monotonic() - start > 3
