"""`x-hearth-route` says why this one answered, also when another one should have come first."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import CHAT, Json, Lab, chat, instances_of, wait_until

LONG = "You are helpful. " * 100


def route(gateway: httpx2.Client, body: Json, **headers: str) -> tuple[str, str]:
    """Who answered, and why."""
    answer = gateway.post(CHAT, json=body, headers=headers).raise_for_status()
    return answer.headers["x-hearth-expert"], answer.headers["x-hearth-route"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "auto: cheapest of 3; cheap is busy"),
        ({"metadata": {"domain": "code"}}, "auto: for code; cheap is busy"),
    ],
)
def test_dearer_expert_says_that_the_first_choice_is_busy(
    lab: Lab, fields: Json, told: str
) -> None:
    """Somebody waits for no slot that another expert has; and reads what that costs, and why."""
    cheap, held = ScriptedModel(), threading.Event()
    cheap.when("hold").say("done", held=held)
    gateway = lab.gateway(
        lab.expert(cheap, "cheap", domains=["code"], slots=1),
        lab.expert(ScriptedModel(), "dear", cost=2), lab.expert(ScriptedModel(), "dearer", cost=3),
    )  # fmt: skip
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(route, gateway, chat("hold", "auto"))
        try:
            cheap.wait_until(lambda model: model.running == 1)
            second = route(gateway, chat("x", "auto", **fields))
        finally:
            held.set()
        assert first.result() == ("cheap", "auto: cheapest of 3")

    assert second == ("dear", told)


def test_dearer_expert_says_that_the_first_choice_is_down(lab: Lab) -> None:
    """It is the cheapest of those that are there, not of those that can."""
    cheap = ScriptedModel()
    gateway = lab.gateway(
        lab.expert(cheap, "cheap"), lab.expert(ScriptedModel(), "dear", cost=2),
    )  # fmt: skip
    cheap.loading = True
    wait_until(lambda: not instances_of(gateway)[0]["healthy"])

    assert route(gateway, chat("x", "auto")) == ("dear", "auto: cheapest of 2; cheap is not ready")


def test_who_stands_in_for_the_home_of_a_prompt_does_not_hold_it(lab: Lab) -> None:
    """It has to read all of it, which is why it is slower."""
    models = [ScriptedModel(), ScriptedModel()]
    gateway = lab.gateway(*(lab.expert(model) for model in models))
    body = chat("go", prompt_cache_key="k")
    assert route(gateway, body) == ("small", "asked by name; holds the beginning of the prompt")
    home = next(model for model in models if model.requests)

    home.when("go").refuse(503, "Loading model")
    _, why = route(gateway, body)

    assert why.startswith("asked by name; not small@")
    assert why.endswith(": busy")


@pytest.mark.parametrize(
    "header", ["x-session-id", "x-session-affinity", "x-openwebui-chat-id", "prompt_cache_key"]
)
def test_named_conversation_stays_where_it_is(lab: Lab, header: str) -> None:
    """However short it is, and whatever it begins with: its caller knows best what belongs
    together. The key in the body counts before all of them."""
    models = [ScriptedModel() for _ in range(3)]
    gateway = lab.gateway(*(lab.expert(model) for model in models))
    for talk in range(8):
        for turn in ("one", "two"):
            if header == "prompt_cache_key":
                body, headers = chat(turn, prompt_cache_key=f"t{talk}"), {"x-session-id": turn}
            else:
                body, headers = chat(turn), {header: f"t{talk}"}
            body["metadata"] = {"talk": str(talk)}
            assert "holds the beginning" in route(gateway, body, **headers)[1]

    homes = [{one.body["metadata"]["talk"] for one in model.requests} for model in models]
    assert sum(map(len, homes)) == 8, homes
