"""`/v1/images/generations`: images of a description, by an expert that makes images."""

import base64
from collections.abc import Iterator
from pathlib import Path

import httpx2
import openai
import pytest

from hearth.openai_api.testing import ScriptedModel
from moe_gateway.keys.store import KeyStore, Limits
from tests.integration.gateway.conftest import KEY, Json, Lab, caller, wait_until

PATH = "/v1/images/generations"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def gateway(lab: Lab, model: ScriptedModel) -> httpx2.Client:
    draws = lab.expert(model, "draws", images=True, chat=False)
    return lab.gateway(lab.expert(ScriptedModel()), draws)


@pytest.fixture
def client(gateway: httpx2.Client) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def ask(gateway: httpx2.Client, model: str = "draws", **fields: object) -> httpx2.Response:
    return gateway.post(PATH, json={"model": model, "prompt": "a red fox", **fields})


def test_official_client_gets_images(client: openai.OpenAI, model: ScriptedModel) -> None:
    """As many as were asked for, in its own types; fields of diffusion models are passed on."""
    answer = client.images.generate(
        model="draws",
        prompt="a red fox",
        n=2,
        size="256x256",
        response_format="b64_json",
        extra_body={"seed": 7},
    )

    found = [base64.b64decode(one.b64_json or "") for one in answer.data or ()]
    assert [one[:8] for one in found] == [PNG, PNG]
    assert found[0] != found[1]
    assert model.requests[0].body == {
        "model": "draws",
        "prompt": "a red fox",
        "n": 2,
        "size": "256x256",
        "response_format": "b64_json",
        "seed": 7,
    }


@pytest.mark.parametrize("name", [None, "dall-e-3", "gpt-image-1"])
def test_client_that_names_no_model_of_the_home_gets_an_image(
    client: openai.OpenAI, model: ScriptedModel, name: str | None
) -> None:
    """The field is optional in OpenAI's API, and some programs send its default."""
    asked = {} if name is None else {"model": name}
    answer = client.images.generate(prompt="a red fox", **asked)  # type: ignore[call-overload]

    assert base64.b64decode(answer.data[0].b64_json)[:8] == PNG
    assert model.requests[0].body == {"prompt": "a red fox", "model": "draws"}


def test_answer_names_the_expert(gateway: httpx2.Client) -> None:
    """As the other routes do."""
    answer = ask(gateway, "auto")

    assert answer.raise_for_status().headers["x-hearth-expert"] == "draws"
    assert answer.headers["x-hearth-route"]


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"model": "small"}, 400, "no_capable_expert", "model"),
        ({"model": "draw"}, 404, "model_not_found", "model"),
        ({"prompt": 5}, 400, "invalid_type", "prompt"),
        ({"prompt": ""}, 400, "invalid_type", "prompt"),
        ({"stream": True}, 400, "unsupported_field", "stream"),
        ({"model": 5}, 400, "invalid_type", "model"),
    ],
)
def test_refusals_name_the_field(
    gateway: httpx2.Client, model: ScriptedModel, fields: Json, status: int, code: str, param: str
) -> None:
    """Nothing reaches a model that cannot answer."""
    answer = ask(gateway, **fields)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, param)
    assert model.requests == []


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff\xfe"])
def test_body_that_is_not_an_object_is_refused(gateway: httpx2.Client, body: bytes) -> None:
    """With the same error as on every route."""
    answer = gateway.post(PATH, content=body, headers={"content-type": "application/json"})

    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_auto_without_an_expert_that_makes_images_is_refused(lab: Lab) -> None:
    """And the reason names the experts."""
    answer = ask(lab.gateway(lab.expert(ScriptedModel())), "auto")

    assert answer.status_code == 400
    assert "small takes no requests for images" in answer.json()["error"]["message"]


def test_model_that_makes_images_is_not_chosen_for_words(gateway: httpx2.Client) -> None:
    """It is listed with what it can."""
    found = {one["name"]: one for one in gateway.get("/api/experts").json()["experts"]}
    chat = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}

    assert found["draws"]["capabilities"] == ["images"]
    assert "images" not in found["small"]["capabilities"]
    answer = gateway.post("/v1/chat/completions", json=chat)
    assert answer.headers["x-hearth-expert"] == "small"


def test_another_instance_answers_when_one_has_gone(lab: Lab) -> None:
    """Before the first byte, as for every other route."""
    busy, well = ScriptedModel(), ScriptedModel()
    instances = [lab.expert(one, "draws", images=True, chat=False) for one in (busy, well)]
    gateway = lab.gateway(*instances)
    busy.loading = True

    answers = [ask(gateway) for _ in range(4)]

    assert {one.status_code for one in answers} == {200}
    assert len(well.requests) == 4


def test_key_needs_permission_for_it(lab: Lab, tmp_path: Path) -> None:
    """A key for another model is refused, as on the other routes."""
    store = KeyStore(tmp_path / "keys.db")
    draws = lab.expert(ScriptedModel(), "draws", images=True, chat=False)
    gateway = lab.gateway(draws, lab.expert(ScriptedModel()), key_store=store.path)
    key, other = store.add("tablet", Limits()), store.add("other", Limits(models=("small",)))

    wait_until(lambda: _asked(gateway, key) == 200)
    assert _asked(gateway, other) == 403


def _asked(gateway: httpx2.Client, key: str) -> int:
    with caller(str(gateway.base_url), key) as client:
        return ask(client).status_code
