"""Who waits, who is let in, who is left alone: on real sockets, with real hang-ups."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import (
    CHAT,
    SERVICE_KEY,
    Json,
    Lab,
    caller,
    chat,
    events,
    gauge,
    instances_of,
    send_raw,
    text_of,
    wait_until,
)


def test_no_expert_is_asked_more_than_it_has_slots_for(lab: Lab) -> None:
    """What an engine queues itself, nobody can order, count or move to another one."""
    model, held = ScriptedModel(), threading.Event()
    model.when("go").say("done", held=held)
    most = 0

    def look() -> None:
        nonlocal most
        while not stop.is_set():
            most = max(most, model.running)
            time.sleep(0.002)

    gateway = lab.gateway(lab.expert(model, slots=2))
    stop = threading.Event()
    with ThreadPoolExecutor(13) as threads:
        threads.submit(look)
        asked = [threads.submit(gateway.post, CHAT, json=chat("go")) for _ in range(12)]
        try:
            wait_until(lambda: gauge(gateway, "moe_gateway_waiting") == 10)
            held.set()
            answers = [one.result() for one in asked]
        finally:
            held.set()
            stop.set()

    assert [answer.status_code for answer in answers] == [200] * 12
    assert most == 2
    waited = [
        int(a.headers["x-hearth-queued-ms"]) for a in answers if "x-hearth-queued-ms" in a.headers
    ]
    assert len(waited) == 10
    assert gauge(gateway, "moe_gateway_queue_seconds_count") == len(waited)
    assert gauge(gateway, "moe_gateway_waiting") == 0


def test_keys_take_turns(lab: Lab) -> None:
    """A program that sends everything at once does not hold up a person with one question."""
    model, held = ScriptedModel(), threading.Event()
    model.when("go").say("done", held=held)
    gateway = lab.gateway(lab.expert(model, slots=1))
    with caller(str(gateway.base_url), SERVICE_KEY) as person, ThreadPoolExecutor(11) as threads:
        try:
            program = [threads.submit(gateway.post, CHAT, json=chat("go")) for _ in range(10)]
            wait_until(lambda: gauge(gateway, "moe_gateway_waiting") == 9)
            asked = threads.submit(person.post, CHAT, json=chat("go, says a person"))
            wait_until(lambda: gauge(gateway, "moe_gateway_waiting") == 10)
        finally:
            held.set()
        answer = asked.result()
        assert [one.result().status_code for one in program] == [200] * 10

    assert answer.status_code == 200
    order = [one.body["messages"][0]["content"] for one in model.requests]
    # One was being answered, and it is the program's turn once more at most.
    assert order.index("go, says a person") <= 2, order


def test_who_waits_for_a_busy_instance_goes_to_one_that_is_ready_now(lab: Lab) -> None:
    """A model that has just loaded is of no use to a queue that looks only when a slot is free."""
    late = ScriptedModel()
    late.loading = True
    busy = lab.expert(ScriptedModel(), slots=1)
    gateway = lab.gateway(
        busy, lab.expert(late, slots=2), taken=1, ready=False, deadline_seconds=60
    )
    wait_until(lambda: instances_of(gateway)[0]["healthy"])
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(gateway.post, CHAT, json=chat("go"))
        wait_until(lambda: gauge(gateway, "moe_gateway_waiting") == 1)
        late.loading = False
        answer = asked.result()

    assert answer.status_code == 200
    assert len(late.requests) == 1


def test_full_queue_is_refused_before_anything_is_sent(lab: Lab) -> None:
    """429 with Retry-After; also a stream is refused by its status, not in its middle."""
    model = ScriptedModel()
    model.when("go").hang()
    gateway = lab.gateway(lab.expert(model, slots=1), queue_per_key=1)
    held = send_raw(gateway, chat("go"))
    model.wait_until(lambda m: len(m.requests) == 1, timeout=60)
    waiting = send_raw(gateway, chat("go"))
    wait_until(lambda: gauge(gateway, "moe_gateway_waiting") == 1)

    answer = gateway.post(CHAT, json=chat("go", stream=True))

    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == "queue_full"
    assert int(answer.headers["retry-after"]) >= 1
    waiting.close()
    wait_until(lambda: gauge(gateway, "moe_gateway_waiting") == 0)
    held.close()
    wait_until(lambda: instances_of(gateway)[0]["in_flight"] == 0)
    assert len(model.requests) == 1, "who hung up in the queue was never sent on"


def test_who_waits_for_a_stream_sees_signs_of_life(lab: Lab) -> None:
    """Clients end a connection that is silent for five minutes; a comment is skipped by all."""
    model = ScriptedModel()
    model.when("go").say("here it is", wait=1)
    gateway = lab.gateway(lab.expert(model, slots=1), keepalive_seconds=0.1)

    with gateway.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        text = answer.read().decode()

    assert answer.status_code == 200
    assert text.count(": waiting\n\n") >= 2
    found = [line for line in text.split("\n\n") if line.startswith("data: ")]
    assert found[-1] == "data: [DONE]"
    assert "here " in text


def test_failure_after_signs_of_life_is_told_in_the_stream(lab: Lab) -> None:
    """The status is out; only an event can still say it, and `[DONE]` must not follow."""
    model, held = ScriptedModel(), threading.Event()
    model.when("go").refuse(500, "The model broke.", held=held)
    gateway = lab.gateway(lab.expert(model), keepalive_seconds=0.05)

    with gateway.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        held.set()  # A sign of life has come, or there would be no answer yet.
        found = events(answer)

    assert answer.status_code == 200
    assert found[-1]["error"]["message"] == "The model broke."
    assert 'status="5xx"} 1.0' in gateway.get("/metrics").text


def test_another_instance_is_asked_after_signs_of_life_too(lab: Lab) -> None:
    """A comment is no byte of the answer."""
    first, second = ScriptedModel(), ScriptedModel()
    first.when("go").lose(how="reset", wait=0.3)
    second.when("go").say("second here", wait=0.01)
    gateway = lab.gateway(lab.expert(first), lab.expert(second), keepalive_seconds=0.05)

    with gateway.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        found = events(answer)

    assert text_of(found) == "second here"
    assert found[-1] == "[DONE]"


@pytest.mark.parametrize("stream", [False, True])
def test_deadline_ends_a_request_wherever_it_is(lab: Lab, *, stream: bool) -> None:
    """Before the first word and in the middle: its caller is told, its slot is free."""
    model = ScriptedModel()
    model.when("go").hang("one two three", after=2 if stream else 0)
    # It must have come to the model before its deadline, on a busy machine too.
    gateway = lab.gateway(lab.expert(model), deadline_seconds=3)

    with gateway.stream("POST", CHAT, json=chat("go", stream=stream)) as answer:
        body = answer.read().decode()

    assert "deadline_exceeded" in body
    assert "[DONE]" not in body
    assert answer.status_code == (200 if stream else 504)
    assert stream or answer.headers["x-should-retry"] == "false", "it would take as long again"
    wait_until(lambda: instances_of(gateway)[0]["in_flight"] == 0)
    model.wait_until(lambda m: m.aborted == 1)


@pytest.mark.parametrize("stream", [False, True])
def test_deadline_ends_who_waits_in_the_queue(lab: Lab, *, stream: bool) -> None:
    """It was sent to nobody, so nobody is named; and it is not sent when a slot is free again."""
    model = ScriptedModel()
    expert = lab.expert(model, slots=1)
    gateway = lab.gateway(expert, taken=1, deadline_seconds=0.5, keepalive_seconds=0.05)

    answer = gateway.post(CHAT, json=chat("go", stream=stream))

    assert "deadline_exceeded" in answer.text
    assert "[DONE]" not in answer.text
    assert answer.status_code == (200 if stream else 504)
    told = answer.text if stream else str(answer.headers)
    assert "refused: deadline_exceeded" in told
    assert gauge(gateway, "moe_gateway_queue_place_sum") == 1
    assert gauge(gateway, "moe_gateway_waiting") == 0
    assert model.requests == []


def test_instance_that_fails_again_and_again_is_left_alone_and_tried_again(lab: Lab) -> None:
    """Its health check is fine, so only what it does with requests tells."""
    flaky, good = ScriptedModel(), ScriptedModel()
    rule = flaky.when("go")
    for _ in range(3):
        rule.refuse(500, "broken")
    rule.say("well again")
    good.when("go").say("good here")
    gateway = lab.gateway(
        lab.expert(flaky, slots=1), lab.expert(good, name="spare", slots=1, cost=9),
        circuit_failures=3, circuit_seconds=4,
    )  # fmt: skip

    def ask() -> Json:
        answer = gateway.post(CHAT, json=chat("go", "auto"))
        return {"status": answer.status_code, "expert": answer.headers.get("x-hearth-expert")}

    seen = [ask() for _ in range(5)]
    circuits = {one["instance"].split("@")[0]: one["circuit"] for one in instances_of(gateway)}
    wait_until(lambda: ask()["expert"] == "small")

    assert [one["status"] for one in seen] == [500, 500, 500, 200, 200]
    assert [one["expert"] for one in seen[3:]] == ["spare", "spare"]
    assert circuits == {"small": "open", "spare": "closed"}
    assert {one["circuit"] for one in instances_of(gateway)} == {"closed"}


def test_one_request_tries_an_instance_that_was_left_alone(lab: Lab) -> None:
    """It may be no better: the others wait for what the one finds, and go on when it is well."""
    model, held = ScriptedModel(), threading.Event()
    model.when("go").refuse(500, "broken").say("well again", held=held)
    gateway = lab.gateway(lab.expert(model, slots=4), circuit_failures=1, circuit_seconds=1)

    assert gateway.post(CHAT, json=chat("go")).status_code == 500
    assert gauge(gateway, "moe_gateway_circuit_open") == 1
    wait_until(lambda: instances_of(gateway)[0]["circuit"] == "half-open")
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(gateway.post, CHAT, json=chat("go")) for _ in range(4)]
        try:
            wait_until(lambda: gauge(gateway, "moe_gateway_waiting") == 3)
            model.wait_until(lambda m: m.running == 1)
        finally:
            held.set()
        answers = [one.result() for one in asked]

    assert [answer.status_code for answer in answers] == [200] * 4
    assert len(model.requests) == 1 + 4
    assert gauge(gateway, "moe_gateway_circuit_open") == 0


@pytest.mark.parametrize("agent", [False, True])
def test_what_is_under_way_is_no_try_and_is_not_waited_for(lab: Lab, *, agent: bool) -> None:
    """A long answer goes on while others fail. An agent may wait itself for what it asks: of the
    one that would have to end first."""
    model, held = ScriptedModel("small"), threading.Event()
    model.when("long").say("one two", held=held)
    model.when("bad").refuse(503, "broken")
    instance = lab.agent(model) if agent else lab.expert(model, slots=4)
    gateway = lab.gateway(instance, circuit_failures=3, circuit_seconds=0.2)

    with ThreadPoolExecutor(1) as threads:
        long = threads.submit(gateway.post, CHAT, json=chat("long"))
        try:
            model.wait_until(lambda m: m.running == 1)
            for _ in range(2):  # Failed tries do not count for more than themselves.
                for _ in range(3):
                    wait_until(lambda: instances_of(gateway)[0]["circuit"] != "open")
                    assert gateway.post(CHAT, json=chat("bad")).status_code == 503
                wait_until(lambda: instances_of(gateway)[0]["circuit"] == "half-open")
            answer = gateway.post(CHAT, json=chat("fine"))
            still = long.running()
        finally:
            held.set()

    assert (answer.status_code, still) == (200, True)
    assert "x-hearth-queued-ms" not in answer.headers
    assert long.result().status_code == 200
    assert instances_of(gateway)[0]["circuit"] == "closed"


def test_agent_that_is_tried_again_may_ask_what_it_needs(lab: Lab) -> None:
    """Its run asks back here, and is no answer before that is one."""
    model, held = ScriptedModel("small"), threading.Event()
    model.when("long").say("one two", held=held)
    model.when("bad").refuse(503, "broken")
    gateway = lab.gateway(lab.agent(model), circuit_failures=1, circuit_seconds=0.2)

    assert gateway.post(CHAT, json=chat("bad")).status_code == 503
    wait_until(lambda: instances_of(gateway)[0]["circuit"] == "half-open")
    with ThreadPoolExecutor(1) as threads:
        tried = threads.submit(gateway.post, CHAT, json=chat("long"))
        try:
            model.wait_until(lambda m: m.running == 1)
            inside = gateway.post(CHAT, json=chat("fine"))
            still = tried.running()
        finally:
            held.set()

    assert (inside.status_code, still, tried.result().status_code) == (200, True, 200)


def test_failovers_add_a_tenth_of_the_load_at_most(lab: Lab) -> None:
    """When all are overloaded, asking each request twice would keep them so; but a house that has
    had a bad hour goes on earning them."""
    models = [ScriptedModel() for _ in range(2)]
    for model in models:
        model.when("go").refuse(503, "Loading model")
    experts = (lab.expert(model, slots=4) for model in models)
    gateway = lab.gateway(*experts, circuit_failures=1000)

    statuses = {gateway.post(CHAT, json=chat("go")).status_code for _ in range(100)}

    assert statuses == {503}
    burst = earned = 10
    asked = sum(len(model.requests) for model in models)
    assert 100 + burst + earned - 2 <= asked <= 100 + burst + earned


def test_conversation_stays_with_its_instance(lab: Lab) -> None:
    """Its beginning is in that instance's cache; elsewhere it would be computed anew."""
    models = [ScriptedModel() for _ in range(3)]
    gateway = lab.gateway(*(lab.expert(model, slots=2) for model in models))
    system = {"role": "system", "content": "You are helpful. " * 100}

    for talk in range(6):
        messages = [system, {"role": "user", "content": f"This is talk {talk}."}]
        for turn in range(4):
            answer = gateway.post(CHAT, json={"model": "small", "messages": messages})
            said = answer.json()["choices"][0]["message"]
            messages += [said, {"role": "user", "content": f"turn {turn}"}]
            assert "holds the beginning" in answer.headers["x-hearth-route"]

    homes = [{one.body["messages"][1]["content"] for one in model.requests} for model in models]
    assert sum(len(talks) for talks in homes) == 6, homes
    assert sum(len(model.requests) for model in models) == 24
