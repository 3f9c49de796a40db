"""A small expert tells the domain of a request for `auto` where nobody else does; when it cannot,
the request goes its way as if nobody had asked."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from moe_gateway.routing import classifier
from tests.integration.gateway.conftest import (
    CHAT,
    Json,
    Lab,
    chat,
    gauge,
    instances_of,
    wait_until,
)

SAYS = {"type": "text", "text": "python"}
DOMAINS = {"code": "Programs and their mistakes", "food": "Cooking"}


@pytest.fixture
def wise() -> ScriptedModel:
    """The classifier, which knows what code is."""
    model = ScriptedModel()
    model.when("python").say('{"domain": "code"}')
    model.when("hello").say('{"domain": "general"}')
    return model


def house(lab: Lab, wise: Json, **settings: Any) -> httpx2.Client:
    """A gateway with three experts and a classifier that has all the time that it needs."""
    return lab.gateway(
        wise,
        lab.expert(ScriptedModel(), "plain", embeddings=True, vision=True),
        lab.expert(ScriptedModel(), "coder", cost=9, domains=["code"]),
        lab.expert(ScriptedModel(), "vane", cost=9, domains=["weather"]),
        **{"classifier": "wise", "domains": DOMAINS, "classifier_seconds": 60, **settings},
    )


def gateway_of(lab: Lab, wise: ScriptedModel, **settings: Any) -> httpx2.Client:
    return house(lab, lab.expert(wise, "wise", auto=False, slots=4), **settings)


def expert(gateway: httpx2.Client, text: str, model: str = "auto", **headers: str) -> str:
    """Who answered."""
    answer = gateway.post(CHAT, json=chat(text, model), headers=headers).raise_for_status()
    return str(answer.headers["x-hearth-expert"])


def test_domain_is_asked_for_once_a_conversation(lab: Lab, wise: ScriptedModel) -> None:
    """Its later turns begin with the same words, and go to the same expert."""
    gateway = gateway_of(lab, wise)
    first = gateway.post(CHAT, json=chat("python?", "auto"))
    talk = [*chat("python?")["messages"], {"role": "user", "content": "And now?"}]
    second = gateway.post(CHAT, json={"model": "auto", "messages": talk})

    assert [a.headers["x-hearth-expert"] for a in (first, second)] == ["coder", "coder"]
    assert first.headers["x-hearth-route"] == "auto: for code"
    assert expert(gateway, "hello") == "plain"
    assert len(wise.requests) == 2
    names = wise.requests[0].body["response_format"]["json_schema"]["schema"]["properties"]
    assert names["domain"]["enum"] == ["code", "food", "general"]


def test_nobody_is_asked_what_a_rule_or_the_caller_tells(lab: Lab, wise: ScriptedModel) -> None:
    """A named model, vectors, and a domain that was said need no opinion, and wait for none."""
    gateway = gateway_of(lab, wise)

    assert expert(gateway, "python", "plain") == "plain"
    assert expert(gateway, "hello", **{"x-hearth-domain": "code"}) == "coder"
    told = chat("hello", "auto", metadata={"domain": "code"})
    assert gateway.post(CHAT, json=told).headers["x-hearth-expert"] == "coder"
    vectors = gateway.post("/v1/embeddings", json={"model": "auto", "input": "python"})
    assert vectors.headers["x-hearth-expert"] == "plain"
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    asked = {"model": "auto", "messages": [{"role": "user", "content": [SAYS, picture]}]}
    seen = gateway.post(CHAT, json=asked)
    assert seen.headers["x-hearth-route"] == "auto: the only one that can"
    assert wise.requests == []


def test_what_it_reads_and_remembers_is_bounded(
    lab: Lab, wise: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A book that somebody pastes in is not read twice, and years of questions are forgotten."""
    monkeypatch.setattr(classifier, "REMEMBERED", 2)
    gateway = gateway_of(lab, wise)
    for number in (1, 2, 1, 3, 1, 2):
        assert expert(gateway, f"python {number}") == "coder"
    expert(gateway, "python " * 1000)

    asked = [one.body["messages"][-1]["content"] for one in wise.requests]
    assert asked[:-1] == ["python 1", "python 2", "python 3", "python 2"]
    assert len(asked[-1]) == classifier.LOOKED_AT


def said(content: str) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}]}).encode()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, said("I think it is about code.")),
        (200, said('{"domain": "weather"}')),
        (200, said('{"domain": ["code"]}')),
        (200, said('{"answer": "code"}')),
        (200, said("7")),
        (200, b"{}"),
        (200, b"[]"),
        (200, b'{"choices": []}'),
        (200, b'{"choices": [{"message": {"content": null}}]}'),
        (200, b"\xff"),
        (500, said('{"domain": "code"}')),
    ],
)
def test_nonsense_costs_no_answer(lab: Lab, status: int, body: bytes) -> None:
    """Small models say many things; and none of them is a domain that nobody has declared."""
    wise = ScriptedModel()
    wise.when("x").answer(body, status=status)
    gateway = gateway_of(lab, wise)

    assert expert(gateway, "x") == "plain"
    assert len(wise.requests) == 1


async def dripping(scope: Any, receive: Any, send: Any) -> None:
    """A server whose answers have no end, though they never pause."""
    if scope["type"] == "lifespan":
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while scope["method"] == "POST":
        await send({"type": "http.response.body", "body": b" ", "more_body": True})
        await asyncio.sleep(0.02)
    await send({"type": "http.response.body", "body": b"{}"})


@pytest.mark.parametrize("vectors", [False, True])
def test_its_time_is_bounded_also_when_it_never_pauses(lab: Lab, *, vectors: bool) -> None:
    """A limit for silence alone would wait for ever."""
    slow = lab.at(lab.serve(dripping), expert="wise", auto=False, embeddings=vectors)
    gateway = house(lab, slow, classifier_seconds=0.2)

    assert expert(gateway, "x") == "plain"
    wait_until(lambda: [one["in_flight"] for one in instances_of(gateway)] == [0] * 4)


def test_one_that_is_silent_is_left_alone(lab: Lab, wise: ScriptedModel) -> None:
    """It costs a moment now and then, not one with each request. What lies between two failures
    begins the count anew."""
    wise.when("silent").hang()
    often: Json = {"circuit_failures": 2, "circuit_seconds": 30}
    gateway = gateway_of(lab, wise, classifier_seconds=1, **often)
    asked = ("silent 1", "python 1", "silent 2", "silent 3", "python 2")
    found = [expert(gateway, text) for text in asked]
    assert found == ["plain", "coder", "plain", "plain", "plain"]
    assert len(wise.requests) == 4
    assert expert(gateway, "python", "wise") == "wise", "as an expert it is as good as ever"


def test_one_whose_health_is_bad_is_not_asked(lab: Lab, wise: ScriptedModel) -> None:
    """Half a start: it answers, but not what its weights would say."""

    async def ill(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") == "/health":
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})
        else:
            await wise(scope, receive, send)

    server = lab.at(lab.serve(ill), expert="wise", auto=False, slots=4)
    gateway = house(lab, server, ready=False)
    wait_until(lambda: [one["healthy"] for one in instances_of(gateway)] == [False, *[True] * 3])

    assert expert(gateway, "python") == "plain"
    assert wise.requests == []


def test_busy_one_is_not_waited_for(lab: Lab, wise: ScriptedModel) -> None:
    """Those who asked it by its name come first."""
    held = threading.Event()
    wise.when("hold").say("done", held=held)
    gateway = house(lab, lab.expert(wise, "wise", auto=False, slots=1))
    with ThreadPoolExecutor(1) as threads:
        named = threads.submit(expert, gateway, "hold", "wise")
        try:
            wise.wait_until(lambda model: model.running == 1)
            assert expert(gateway, "python") == "plain"
        finally:
            held.set()
        assert named.result() == "wise"

    assert len(wise.requests) == 1


def test_it_has_a_slot_while_it_is_asked_and_gives_it_to_who_waits(lab: Lab) -> None:
    """Its slots are those of an expert: no more at once, and who waits for one does not wait for
    the answer to what was classified."""
    wise, plain, asked, said = (
        ScriptedModel(),
        ScriptedModel(),
        threading.Event(),
        threading.Event(),
    )
    wise.when("hello").say('{"domain": "general"}', held=asked)
    plain.when("hello").say("Good day.", held=said)
    gateway = lab.gateway(
        lab.expert(wise, "wise", auto=False, slots=1), lab.expert(plain, "plain"),
        lab.expert(ScriptedModel(), "coder", cost=9, domains=["code"]),
        classifier="wise", classifier_seconds=60, domains=DOMAINS,
        check_interval=3600,  # So that nobody else looks who can go on.
    )  # fmt: skip
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(expert, gateway, "hello")
        try:
            wise.wait_until(lambda model: model.running == 1)
            named = threads.submit(expert, gateway, "fine", "wise")
            wait_until(lambda: gauge(gateway, "moe_gateway_waiting") == 1)
            asked.set()
            assert named.result(60) == "wise"
            plain.wait_until(lambda model: model.running == 1)
        finally:
            asked.set()
            said.set()
        assert first.result() == "plain"


class Vectors:
    """A server of vectors that says what a test wants: for a text, what `of` makes of it."""

    def __init__(self, of: Any) -> None:
        self.of = of

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await ScriptedModel()(scope, receive, send)
            return
        body = (await receive())["body"]
        answer = self.of(json.loads(body)["input"]) if body else {}
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


def test_nearest_description_is_the_domain(lab: Lab, wise: ScriptedModel) -> None:
    """Vectors of the scripted model are the length of the text: code is the nearer one here. Those
    of the descriptions are asked for once."""
    gateway = house(
        lab, lab.expert(wise, "wise", auto=False, slots=4, embeddings=True),
        domains={"food": "x", "code": "x" * 200},
    )  # fmt: skip

    assert {expert(gateway, "y" * 150 + end) for end in "ab"} == {"coder"}
    assert len(wise.requests) == 3


def pointing(*vectors: Any) -> Json:
    return {"data": [{"index": n, "embedding": one} for n, one in enumerate(vectors)]}


def of_code(texts: list[str]) -> Json:
    """The descriptions, and all that is asked, as directions: what is asked lies near to code, and
    is a long vector, as is that of food."""
    both = {DOMAINS["code"]: [0.1, 0], DOMAINS["food"]: [30, 40]}
    return pointing(*(both.get(text, [7, 1]) for text in texts))


def test_direction_counts_and_the_index_tells_the_order(lab: Lab) -> None:
    """Some models give longer vectors for longer texts; and a list may come in any order."""
    for turned in (False, True):

        def of(texts: list[str], *, turned: bool = turned) -> Json:
            answer = of_code(texts)
            return {"data": answer["data"][::-1]} if turned else answer

        server = lab.at(lab.serve(Vectors(of)), expert="wise", auto=False, embeddings=True)
        assert expert(house(lab, server), "x") == "coder"


@pytest.mark.parametrize(
    "vectors", [{}, [], {"data": []}, pointing([1, 0]), pointing("AAAA", "AAAA"), pointing(None, 7)]
)
def test_vectors_that_are_none_cost_no_answer(lab: Lab, vectors: Any) -> None:
    """One for two descriptions would be kept, and be wrong for as long as the gateway runs."""
    answers = [vectors]
    server = Vectors(lambda texts: answers.pop() if answers else of_code(texts))
    wise = lab.at(lab.serve(server), expert="wise", auto=False, embeddings=True)
    gateway = house(lab, wise)

    assert [expert(gateway, text) for text in ("x", "y")] == ["plain", "coder"]
