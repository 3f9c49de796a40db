"""Conversations over three real engines: each finds its beginning in the cache of its own one."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from tests.integration.expert import build_engines
from tests.integration.expert.running import KEY as EXPERT_KEY
from tests.integration.expert.running import Expert, Starter, ready, until
from tests.integration.gateway.conftest import CHAT, Json, Lab

TALKS = ("a river", "an old harbour", "the winter sea")
RULES = "You write one short sentence about {about}, and you never leave it. " * 15
"""Long enough to be worth keeping: some two hundred tokens."""


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Expert]]:
    """SmolLM2 three times, started at once."""
    store = ModelStore(build_engines.REPOSITORY / ".cache" / "models")
    pull(Catalogue.load()[FALLBACK], store)
    starter = Starter("xllamacpp", tmp_path_factory.mktemp("experts"), store.root)
    with ExitStack() as stack:
        begun = []
        for _ in range(3):
            begun.append(starter.begin(context=1024, slots=2))
            stack.callback(begun[-1].process.wait, 120)
            stack.callback(begun[-1].process.terminate)
            stack.callback(begun[-1].client.close)
        for one in begun:
            until(lambda one=one: ready(one), 300, f"ready; it said:\n{one.said()}")  # type: ignore[misc]
        yield begun


def said(client: httpx2.Client, messages: list[Json]) -> httpx2.Response:
    body = {"model": "talk", "messages": messages, "max_tokens": 8, "temperature": 0}
    return client.post(CHAT, json=body, timeout=120).raise_for_status()


def known(answer: httpx2.Response) -> float:
    """The share of the prompt that was in the engine's cache, by its own account."""
    usage = answer.json()["usage"]
    return float(usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"])


def test_turns_of_each_conversation_find_the_earlier_ones_in_a_cache(
    lab: Lab, engines: list[Expert], tmp_path: Path
) -> None:
    """Three people talk in turns; what is reread is what makes them wait for the first word. One
    engine after the other, as without affinity, they would find next to nothing."""
    (tmp_path / "expert").write_text(EXPERT_KEY)
    settings: Json = {"key_file": tmp_path / "expert", "stops_unary": False, "slots": 2}
    gateway = lab.gateway(
        *({"url": str(one.client.base_url), "expert": "talk", **settings} for one in engines),
        check_interval=1,
    )
    talks = {about: [{"role": "system", "content": RULES.format(about=about)}] for about in TALKS}
    shares, reasons = [], set()
    for turn in ("Begin.", "Go on."):
        for messages in talks.values():
            messages.append({"role": "user", "content": turn})
            answer = said(gateway, messages)
            messages.append(answer.json()["choices"][0]["message"])
            reasons.add(answer.headers["x-hearth-route"])
            shares.append(known(answer))
    elsewhere = [known(said(engines[n % 3].client, talks[TALKS[0]])) for n in range(3)]

    assert reasons == {"asked by name; holds the beginning of the prompt"}
    assert min(shares[len(TALKS) :]) > 0.8
    assert sorted(share > 0.8 for share in elsewhere) == [False, False, True]
    counted = [
        line for line in gateway.get("/metrics").text.splitlines()
        if line.startswith("moe_gateway_affinity_total{")
    ]  # fmt: skip
    results = {
        result: sum(float(one.split()[-1]) for one in counted if f'result="{result}"' in one)
        for result in ("hit", "miss")
    }
    assert results == {"hit": len(TALKS), "miss": len(TALKS)}
