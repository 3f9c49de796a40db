"""`/v1/rerank`: which texts fit a question best, by an expert that ranks."""

from pathlib import Path

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from moe_gateway.keys.store import KeyStore, Limits
from tests.integration.gateway.conftest import Json, Lab, caller, gauge, wait_until

PATH = "/v1/rerank"
ASK: Json = {
    "query": "how to bake bread",
    "documents": ["A bear.", "to bake bread take flour", "a bread"],
}


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def gateway(lab: Lab, model: ScriptedModel) -> httpx2.Client:
    ranks = lab.expert(model, "ranks", rerank=True, chat=False)
    return lab.gateway(lab.expert(ScriptedModel()), ranks)


def ask(gateway: httpx2.Client, model: str = "ranks", **fields: object) -> httpx2.Response:
    return gateway.post(PATH, json={"model": model, **ASK, **fields})


@pytest.mark.parametrize("name", ["ranks", "auto"])
def test_texts_come_back_in_order_of_their_scores(
    gateway: httpx2.Client, model: ScriptedModel, name: str
) -> None:
    """In llama-server's form, with who ranked them and what it cost."""
    answer = ask(gateway, name, top_n=2, return_documents=True)

    found = answer.raise_for_status().json()
    assert [one["index"] for one in found["results"]] == [1, 2]
    assert found["results"][0]["relevance_score"] == 3
    assert answer.headers["x-hearth-expert"] == "ranks"
    assert answer.headers["x-hearth-route"]
    assert model.requests[0].body == {**ASK, "model": "ranks", "top_n": 2, "return_documents": True}
    assert gauge(gateway, "moe_gateway_tokens_total") == found["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"model": "small"}, 400, "no_capable_expert", "model"),
        ({"model": "rank"}, 404, "model_not_found", "model"),
        ({"query": 5}, 400, "invalid_type", "query"),
        ({"documents": []}, 400, "invalid_type", "documents"),
        ({"documents": [{"text": "a"}]}, 400, "invalid_type", "documents"),
    ],
)
def test_refusals_name_the_field(
    gateway: httpx2.Client, model: ScriptedModel, fields: Json, status: int, code: str, param: str
) -> None:
    """Nothing reaches a model that cannot answer."""
    answer = gateway.post(PATH, json={"model": "ranks", **ASK, **fields})

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, param)
    assert model.requests == []


def test_auto_without_an_expert_that_ranks_is_refused(lab: Lab) -> None:
    """And the reason names the experts."""
    answer = ask(lab.gateway(lab.expert(ScriptedModel())), "auto")

    assert answer.status_code == 400
    assert "small takes no rerank" in answer.json()["error"]["message"]


def test_model_that_does_not_rank_is_not_chosen_for_words(gateway: httpx2.Client) -> None:
    """It is listed with what it can."""
    found = {one["name"]: one for one in gateway.get("/api/experts").json()["experts"]}

    assert found["ranks"]["capabilities"] == ["rerank"]
    assert "rerank" not in found["small"]["capabilities"]


def test_another_instance_answers_when_one_has_gone(lab: Lab) -> None:
    """Before the first byte, as for every other route."""
    busy, well = ScriptedModel(), ScriptedModel()
    instances = [lab.expert(one, "ranks", rerank=True, chat=False) for one in (busy, well)]
    gateway = lab.gateway(*instances)
    busy.loading = True

    answers = [ask(gateway) for _ in range(4)]

    assert {one.status_code for one in answers} == {200}
    assert len(well.requests) == 4


def test_key_pays_for_it(lab: Lab, tmp_path: Path) -> None:
    """A spent budget is refused, and so is a model that the key may not use."""
    store = KeyStore(tmp_path / "keys.db")
    ranks = lab.expert(ScriptedModel(), "ranks", rerank=True, chat=False)
    gateway = lab.gateway(ranks, lab.expert(ScriptedModel()), key_store=store.path)
    key = store.add("tablet", Limits(tokens_per_day=10))
    other = store.add("other", Limits(models=("small",)))
    wait_until(lambda: [_asked(gateway, one) for one in (key, other)] == [200, 403])

    wait_until(lambda: _asked(gateway, key) == 429)
    assert gauge(gateway, "moe_gateway_tokens_total") >= 10


def _asked(gateway: httpx2.Client, key: str) -> int:
    with caller(str(gateway.base_url), key) as client:
        return ask(client).status_code
