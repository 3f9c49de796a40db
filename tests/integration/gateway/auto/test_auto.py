"""`auto` over three real experts, and scripted ones for what the small model cannot do."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from hearth.openai_api.testing import ScriptedModel
from tests.integration.expert import build_engines
from tests.integration.expert.running import KEY as EXPERT_KEY
from tests.integration.expert.running import Starter
from tests.integration.gateway.conftest import CHAT, Json, Lab, chat, wait_until
from tests.ports import free_port

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SCHEMA: Json = {
    "type": "object",
    "properties": {"river": {"type": "string", "maxLength": 20}, "long": {"type": "boolean"}},
    "required": ["river", "long"],
    "additionalProperties": False,
}
LINE = "=" * 6000
"""Many bytes, which the gateway counts, and few tokens, which the engine has to read."""
WORDS = "The river runs from the hills to the sea. "


@contextmanager
def vectors(store: ModelStore) -> Iterator[str]:
    """The address of the expert for vectors."""
    port, model = free_port(), Catalogue.load()[FALLBACK]
    child = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.vectors", str(port), str(store.path(model))],
        cwd=build_engines.REPOSITORY,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        child.terminate()
        child.wait(60)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """SmolLM2 with 2k, with 8k, and for vectors; behind them two who are scripted, and dear."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    (folder / "expert").write_text(EXPERT_KEY)
    store = ModelStore(build_engines.REPOSITORY / ".cache" / "models")
    pull(Catalogue.load()[FALLBACK], store)
    engines = Starter("xllamacpp", tmp_path_factory.mktemp("experts"), store.root)
    scripted = ScriptedModel()
    scripted.when("tool").call_tool("f", {})
    scripted.when("see").say("A cat.")
    with ExitStack() as stack:
        lab = Lab(stack, folder)
        real: Json = {"key_file": folder / "expert", "tools": "none", "stops_unary": False}
        large = {**real, "context": 8192, "cost": 2}
        small = stack.enter_context(engines.running(context=2048, slots=1, name="small"))
        roomy = stack.enter_context(engines.running(context=8192, slots=1, name="roomy"))
        yield lab.gateway(
            {"url": str(small.client.base_url), "expert": "small", "context": 2048, **real},
            {"url": str(roomy.client.base_url), "expert": "roomy", **large},
            {"url": stack.enter_context(vectors(store)), "expert": "vectors", "context": 512,
             "cost": 0.1, "chat": False, "embeddings": True},
            lab.expert(scripted, "hands", cost=20, context=32_768, languages=["en", "ja"]),
            lab.expert(scripted, "eyes", cost=30, vision=True, tools="none", domains=["art"]),
        )  # fmt: skip


def is_ready(gateway: httpx2.Client, expert: str) -> bool:
    experts = gateway.get("/api/experts").json()["experts"]
    return any(one["healthy"] for one in experts if one["name"] == expert)


def asked(gateway: httpx2.Client, content: Any, **fields: Any) -> tuple[str, str]:
    """Who answered, and why."""
    body = chat("", "auto", max_tokens=4, **fields)
    body["messages"][0]["content"] = content
    answer = gateway.post(CHAT, json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-hearth-expert"], answer.headers["x-hearth-route"]


@pytest.mark.parametrize(
    ("content", "fields", "expert", "reason"),
    [
        ("Hi", {}, "small", "auto: cheapest of 4"),
        (LINE, {}, "roomy", "auto: cheapest of 3; holds the beginning of the prompt"),
        ("use the tool", {"tools": [TOOL]}, "hands", "auto: the only one that can"),
        ("use the tool", {"tools": [TOOL], "tool_choice": "none"}, "small", "auto: cheapest of 4"),
        ([{"type": "text", "text": "see"}, PICTURE], {}, "eyes", "auto: the only one that can"),
        ("see", {"metadata": {"domain": "art"}}, "eyes", "auto: for art"),
    ],
)
def test_auto_takes_the_cheapest_expert_that_can(
    gateway: httpx2.Client, content: Any, fields: Json, expert: str, reason: str
) -> None:
    """By length, tools, pictures and domain; the reason is told."""
    assert asked(gateway, content, **fields) == (expert, reason)


def test_vectors_come_from_the_expert_for_vectors(gateway: httpx2.Client) -> None:
    """It is the cheapest of all, but never asked to talk."""
    answer = gateway.post("/v1/embeddings", json={"model": "auto", "input": ["river", "sea"]})

    assert answer.headers["x-hearth-expert"] == "vectors"
    first, second = (one["embedding"] for one in answer.json()["data"])
    assert len(first) == len(second) > 100
    assert first != second


def test_answer_of_the_real_model_holds_to_its_schema(gateway: httpx2.Client) -> None:
    """A grammar is made of the schema; without one, this model writes no JSON."""
    wanted = {"type": "json_schema", "json_schema": {"name": "river", "schema": SCHEMA}}
    # A grammar allows blanks between the words, of which this model makes some.
    body = chat("Name a river.", "auto", response_format=wanted, max_tokens=400, temperature=0)
    # On a busy machine it is at times too slow to say that it is well, and another one is asked.
    wait_until(lambda: is_ready(gateway, "small"))
    answer = gateway.post(CHAT, json=body, timeout=120)

    found = json.loads(answer.json()["choices"][0]["message"]["content"])
    assert answer.headers["x-hearth-expert"] == "small", answer.headers["x-hearth-route"]
    assert found.keys() == {"river", "long"}
    assert isinstance(found["long"], bool)


def test_responses_and_completions_work_with_the_real_model(gateway: httpx2.Client) -> None:
    """The same engine behind every door."""
    # Whatever it says, it must not be done with it before the limit.
    fixed: Json = {"model": "small", "temperature": 0, "ignore_eos": True}
    response = gateway.post(
        "/v1/responses", json={**fixed, "input": "Say hi.", "max_output_tokens": 4}
    ).json()
    text = gateway.post("/v1/completions", json={**fixed, "prompt": "Once", "max_tokens": 4}).json()

    assert response["status"] == "incomplete"
    assert response["usage"]["output_tokens"] == 4
    assert response["output"][0]["content"][0]["text"]
    assert text["choices"][0]["text"]


def test_second_turn_finds_the_first_one_in_the_cache(gateway: httpx2.Client) -> None:
    """By the engine's own `cached_tokens`, which the gateway counts."""
    messages = [{"role": "user", "content": WORDS * 20}]
    for turn in ("Go on.", "And then?"):
        body = {"model": "small", "messages": messages, "max_tokens": 4}
        answer = gateway.post(CHAT, json=body, timeout=120).json()
        messages += [answer["choices"][0]["message"], {"role": "user", "content": turn}]
    usage = answer["usage"]

    assert usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] / 2
    metrics = gateway.get("/metrics").text
    counted = [float(one.split()[-1]) for one in metrics.splitlines() if one.startswith(
        "moe_gateway_cached_tokens_total{") and 'model="small"' in one]  # fmt: skip
    assert sum(counted) >= usage["prompt_tokens_details"]["cached_tokens"]
