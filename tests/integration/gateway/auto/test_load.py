"""Among the instances of one expert, the least busy one is asked, whoever keeps the others busy;
among those as busy, the one that lately took the least time to its first byte."""

import time

import httpx2
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from hearth.openai_api.testing import ScriptedModel
from moe_gateway.routing.admission import SMOOTHING
from tests.integration.gateway.conftest import CHAT, Lab, chat, instances_of, wait_until


def test_slots_that_others_keep_busy_count(lab: Lab) -> None:
    """A second gateway, or a program with the expert's own key, is seen in `/slots` alone."""
    models = [ScriptedModel(slots=4), ScriptedModel(slots=4)]
    for model in models:
        model.when("mine").hang("one", after=1)
    urls = [lab.serve(model.app) for model in models]
    gateway = lab.gateway(*(lab.at(url, expert="small", slots=4) for url in urls))

    def busy() -> list[int]:
        return [one["busy_elsewhere"] for one in instances_of(gateway)]

    for model, url in zip(models, urls, strict=True):
        asked = chat("mine", stream=True)
        with httpx2.stream("POST", f"{url}{CHAT}", json=asked, timeout=60, trust_env=False):
            wait_until(lambda: sorted(busy()) == [0, 1])
            before = [len(one.requests) for one in models]
            for _ in range(4):
                gateway.post(CHAT, json=chat("x")).raise_for_status()
            came = [len(one.requests) - n for one, n in zip(models, before, strict=True)]
        wait_until(lambda: busy() == [0, 0])

        assert came == [0 if one is model else 4 for one in models]


def without_slots(app: ASGIApp) -> ASGIApp:
    """As llama-server in its router mode, which has no `/slots`."""

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        missing = scope["type"] == "http" and scope["path"] == "/slots"
        await app({**scope, "path": "/missing"} if missing else scope, receive, send)

    return routed


def test_server_that_tells_no_slots_is_as_busy_as_we_keep_it(lab: Lab) -> None:
    """It is no fault of it, and our own requests are known without asking."""
    models = [ScriptedModel(), ScriptedModel()]
    for model in models:
        model.when("long").hang("one", after=1)
    urls = [lab.serve(without_slots(model.app)) for model in models]
    assert {httpx2.get(f"{url}/slots", trust_env=False).status_code for url in urls} == {404}
    gateway = lab.gateway(*(lab.at(url, expert="small", slots=4) for url in urls))

    with gateway.stream("POST", CHAT, json=chat("long", stream=True)):
        for _ in range(4):
            gateway.post(CHAT, json=chat("x")).raise_for_status()
        told = instances_of(gateway)

    assert [len(one.requests) for one in models] == [1, 4]
    assert [(one["healthy"], one["busy_elsewhere"]) for one in told] == [(True, 0)] * 2


def first_bytes(gateway: httpx2.Client) -> list[float]:
    """What the gateway has measured of each instance."""
    return [one["first_byte_seconds"] for one in instances_of(gateway)]


def test_instance_that_was_quick_lately_is_asked(lab: Lab) -> None:
    """A slow machine is found out by what it does; one slow answer among quick ones is no slow
    machine, and a machine that has become slow is one."""
    models, waits = [ScriptedModel(), ScriptedModel()], {"slow": 0.5, "quick": 0.0}
    for model in models:
        for text, seconds in waits.items():
            model.when(text).say("here", wait=seconds)
    # Two looks alone, at the start: in a later one, an answer that just ends may count as a slot.
    gateway = lab.gateway(*(lab.expert(one) for one in models), check_interval=3600)

    asked = []
    for text in ("slow", "quick", "slow", "quick", "slow", "quick"):
        before, came = first_bytes(gateway), [len(one.requests) for one in models]
        begun = time.perf_counter()
        gateway.post(CHAT, json=chat(text)).raise_for_status()
        took, after = time.perf_counter() - begun, first_bytes(gateway)
        at = next(n for n, one in enumerate(models) if len(one.requests) > came[n])
        asked.append(at)

        assert before[at] == min(before), "not the quickest one"
        assert after[1 - at] == before[1 - at]
        kept = (1 - SMOOTHING) * before[at]
        assert kept + SMOOTHING * waits[text] <= after[at] <= kept + SMOOTHING * took

    assert asked[:2] == [0, 1]


def test_time_to_the_first_byte_is_known_before_the_last_one(lab: Lab) -> None:
    """A long answer is no slow one, and who comes meanwhile is to profit from what is known."""
    model = ScriptedModel()
    model.when("go").hang("one two", after=1)
    gateway = lab.gateway(lab.expert(model), check_interval=3600)

    begun = time.perf_counter()
    with gateway.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        took = time.perf_counter() - begun
        next(answer.iter_lines())
        (known,) = first_bytes(gateway)

    wait_until(lambda: instances_of(gateway)[0]["in_flight"] == 0)
    assert 0 < known <= SMOOTHING * took
    assert first_bytes(gateway) == [pytest.approx(known)]


@pytest.mark.parametrize("status", [400, 429])
def test_server_that_refuses_at_once_is_not_taken_for_a_quick_one(lab: Lab, status: int) -> None:
    """Else the one that takes nothing would be asked first by everybody."""
    model = ScriptedModel()
    model.when("no").refuse(status)
    model.when("yes").say("here", wait=0.3)
    gateway = lab.gateway(lab.expert(model), check_interval=3600)

    gateway.post(CHAT, json=chat("yes")).raise_for_status()
    before = first_bytes(gateway)
    for _ in range(5):
        assert gateway.post(CHAT, json=chat("no")).status_code == status

    assert first_bytes(gateway) == before
    assert before[0] >= 0.3 * SMOOTHING
