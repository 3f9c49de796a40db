"""What a key with a budget gets, however it asks."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from moe_gateway.keys.store import KeyStore, Limits
from tests.integration.gateway.conftest import CHAT, Lab, caller, chat, wait_until


class Tablet:
    """A caller with 30 tokens a day, of a gateway with one slot."""

    def __init__(self, lab: Lab, store: KeyStore, **settings: Any) -> None:
        self.model = ScriptedModel(stops_unary=False)
        expert = lab.expert(self.model, slots=1, stops_unary=False)
        self.gateway = lab.gateway(expert, key_store=store.path, **settings)
        self.key = store.add("tablet", Limits(tokens_per_day=30))
        wait_until(lambda: self.ask("/v1/models").status_code == 200)

    def ask(self, path: str) -> httpx2.Response:
        with caller(str(self.gateway.base_url), self.key) as client:
            return client.get(path)

    def say(self, text: str, *, stream: bool) -> httpx2.Response:
        with caller(str(self.gateway.base_url), self.key) as client:
            return client.post(CHAT, json=chat(text, stream=stream))

    @property
    def tokens(self) -> int:
        keys = self.gateway.get("/api/keys").json()["keys"]
        return int(keys[0]["today"]["tokens"])


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "keys.db")


@pytest.mark.parametrize("stream", [False, True])
def test_who_asks_many_things_at_once_gets_no_more_of_a_budget(
    lab: Lab, store: KeyStore, *, stream: bool
) -> None:
    """Whoever has waited is looked at again: the answers before may have cost all that was left."""
    tablet = Tablet(lab, store)
    tablet.model.when("go").say("word " * 40)

    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(tablet.say, "go", stream=stream) for _ in range(8)]
        statuses = sorted(one.result().status_code for one in asked)

    assert statuses == [200, *[429] * 7]
    assert len(tablet.model.requests) == 1


def test_answer_that_the_deadline_cuts_off_costs_what_was_said(lab: Lab, store: KeyStore) -> None:
    """Else who wants endless answers has an endless budget."""
    tablet = Tablet(lab, store, deadline_seconds=4)
    tablet.model.when("go").hang("word " * 60, after=50)

    answer = tablet.say("go", stream=True)
    wait_until(lambda: tablet.tokens > 0)

    assert '"code":"deadline_exceeded"' in answer.text
    assert 40 <= tablet.tokens <= 60
    assert tablet.say("go", stream=True).status_code == 429
