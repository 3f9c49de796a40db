"""Which servers and models there are, and how well they are."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hearth.openai_api.testing import ScriptedModel
from hearth.service.health import Health
from moe_gateway.app import build_app
from tests.conftest import served
from tests.integration.gateway.conftest import CHAT, Lab, caller, chat, instances_of, wait_until
from tests.ports import free_port

TIMES = ("first_byte", "duration", "upstream")


def test_models_of_all_servers_are_listed(lab: Lab) -> None:
    """`auto`, experts with their aliases, and what the agent offers."""
    agent = ScriptedModel("agent", "workflow/report", key="sk-hearth-test-of-services")
    gateway = lab.gateway(lab.expert(ScriptedModel(), aliases=["tiny"]), lab.agent(agent))

    found = gateway.get("/v1/models").json()

    assert found["object"] == "list"
    assert [model["id"] for model in found["data"]] == [
        "auto",
        "small",
        "tiny",
        "agent",
        "workflow/report",
    ]
    one = gateway.get("/v1/models/workflow/report").json()
    assert (one["id"], one["object"]) == ("workflow/report", "model")


def test_new_models_of_the_agent_appear(lab: Lab) -> None:
    """A workflow that somebody saves can be asked at once."""
    agent = ScriptedModel("agent")
    gateway = lab.gateway(lab.agent(agent))
    assert gateway.post(CHAT, json=chat("x", "workflow/new")).status_code == 404

    agent.names = ("agent", "workflow/new")

    wait_until(lambda: gateway.post(CHAT, json=chat("x", "workflow/new")).status_code == 200)


def test_instance_is_out_while_it_loads_and_back_when_it_is_ready(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said once in the log, not each second; the gateway's own health follows."""
    model = ScriptedModel()
    gateway = lab.gateway(lab.expert(model))
    assert gateway.get("/health").status_code == 200

    model.loading = True
    wait_until(lambda: gateway.get("/health").status_code == 503)
    refused = gateway.post(CHAT, json=chat("x"))
    assert refused.status_code == 503
    assert "Loading model" in refused.json()["error"]["message"]
    assert gateway.get("/v1/models").json()["data"] == []
    assert "small at" in gateway.get("/health").json()["reasons"][0]

    model.loading = False
    wait_until(lambda: gateway.get("/health").status_code == 200)
    assert gateway.post(CHAT, json=chat("x")).status_code == 200
    log = capsys.readouterr().out
    assert log.count("instance_lost") == 1
    assert log.count("instance_ready") == 2


def test_instance_that_starts_after_the_gateway_is_found_before_the_next_usual_check(
    lab: Lab,
) -> None:
    """The first request of a user right after the start finds its model."""
    port = free_port()
    late = lab.at(f"http://127.0.0.1:{port}", expert="small")
    gateway = lab.gateway(late, ready=False, check_interval=50)
    wait_until(lambda: instances_of(gateway)[0]["reason"] != "not asked yet")

    with served(ScriptedModel("small").app, port=port):
        wait_until(lambda: instances_of(gateway)[0]["healthy"], 20)
        assert gateway.post(CHAT, json=chat("Hi", model="small")).status_code == 200


def test_experts_tell_what_they_are(lab: Lab) -> None:
    """Why was this one chosen, or not?"""
    model = ScriptedModel("scripted-135m")
    gateway = lab.gateway(lab.expert(model, tools="none", context=2048), lab.agent(ScriptedModel()))

    found = gateway.get("/api/experts").json()

    expert = found["experts"][0]
    assert (expert["name"], expert["model"], expert["healthy"]) == ("small", "scripted-135m", True)
    assert (expert["tools"], expert["context"]) == ("none", 2048)
    assert expert["instances"][0]["slots"] == 1
    assert found["others"][0]["models"] == ["scripted"]


def test_experts_tell_why_one_is_not_chosen(lab: Lab) -> None:
    """What a person looks for when `auto` takes another one than they thought."""
    model = ScriptedModel()
    gateway = lab.gateway(lab.expert(model), lab.expert(ScriptedModel(), "own", auto=False))

    def told(name: str) -> list[Any]:
        experts = gateway.get("/api/experts").json()["experts"]
        found = next(one for one in experts if one["name"] == name)
        reasons = {found["reason"], *(one["reason"] for one in found["instances"])}
        return [found["healthy"], found["auto"], *reasons]

    assert told("small") == [True, True, ""]
    assert told("own") == [True, False, ""]
    model.loading = True
    wait_until(lambda: not told("small")[0])
    assert told("small") == [False, False, "HTTP 503: Loading model"]


def test_gateway_without_a_ready_expert_says_so(lab: Lab) -> None:
    """Whoever starts the services waits for this."""
    gateway = lab.gateway(ready=False)

    health = gateway.get("/health")

    assert health.status_code == 503
    assert health.json()["reasons"] == ["experts: none is configured"]


def test_labels_stay_bounded(lab: Lab) -> None:
    """A caller who invents model names must not fill the metrics store."""
    gateway = lab.gateway(lab.expert(ScriptedModel()))
    for number in range(5):
        gateway.post(CHAT, json=chat("x", f"invented-{number}"))
        gateway.post(CHAT, json={"model": ["invented"], "messages": number})
        gateway.post(CHAT, content=b"{" * number)

    metrics = gateway.get("/metrics").text

    assert "invented" not in metrics
    models = {
        one.labels["model"]
        for family in text_string_to_metric_families(metrics)
        for one in family.samples
        if family.name != "moe_gateway_instance_serves" and "model" in one.labels
    }
    assert models == {"unknown"}
    counted = 'moe_gateway_requests_total{instance="none",model="unknown",status="4xx"} 15.0'
    assert counted in metrics


def test_metrics_count_what_was_asked_and_how_long_it_took(lab: Lab) -> None:
    """By model and instance: a figure that stays at zero is one that nobody can plan by."""
    gateway = lab.gateway(lab.expert(ScriptedModel()))
    for stream in (False, True):
        gateway.post(CHAT, json=chat("one two three", stream=stream)).raise_for_status()

    counted = {
        (one.name.removeprefix("moe_gateway_"), one.labels.get("kind", "")): one.value
        for family in text_string_to_metric_families(gateway.get("/metrics").text)
        for one in family.samples
        if one.labels.get("model") == "small" and "le" not in one.labels
        and one.labels.get("status", "2xx") == "2xx"
    }  # fmt: skip
    assert counted["requests_total", ""] == 2
    assert counted["tokens_total", "prompt"] == counted["tokens_total", "completion"] == 6
    assert {counted[f"{name}_seconds_count", ""] for name in TIMES} == {2}
    assert counted["inter_token_seconds_count", ""] == 1
    assert all(counted[f"{name}_seconds_sum", ""] > 0 for name in (*TIMES, "inter_token"))


def test_twenty_callers_each_get_their_own_answer(lab: Lab) -> None:
    """Also when the agent asks back at the same gateway, and there are fewer slots than callers."""
    model, agent = ScriptedModel(slots=4), ScriptedModel("agent")
    model.when(lambda request: True).say("busy", pause=0.01, wait=0.02)
    gateway = lab.gateway(lab.expert(model, slots=4), lab.agent(agent))

    def ask(number: int) -> str:
        name = "agent" if number % 2 else "small"
        answer = gateway.post(CHAT, json=chat(f"I am {number}", name)).json()
        return str(answer["choices"][0]["message"]["content"])

    with ThreadPoolExecutor(20) as callers:
        answers = list(callers.map(ask, range(20)))

    assert answers == [f"I am {n}" if n % 2 else "busy" for n in range(20)]
    wait_until(lambda: all(one["in_flight"] == 0 for one in instances_of(gateway)))


def test_draining_gateway_refuses_what_is_new(lab: Lab) -> None:
    """Another one may take it: 503, and the connection is not kept."""
    app = build_app(lab.settings(), Health("moe-gateway", version="test"))
    app.drain()

    with caller(lab.serve(app)) as client:
        answer = client.post(CHAT, json=chat("x"))

    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "stopping"
    assert answer.headers["connection"] == "close"
    assert answer.headers["retry-after"] == "5"
