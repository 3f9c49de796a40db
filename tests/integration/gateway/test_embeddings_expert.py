"""The expert for embeddings that `hearth up` starts, behind a real gateway."""

import math
from collections.abc import Iterator
from contextlib import ExitStack

import httpx2
import openai
import pytest

from hearth.openai_api.testing import ScriptedModel
from hearth.service.health import Health
from hearth.service.metrics import new_registry
from llama_expert.embeddings.app import build_app
from llama_expert.embeddings.settings import Settings
from tests.conftest import served
from tests.integration.gateway.conftest import KEY, SERVICE_KEY, Lab, wait_until

EXPERT = "multilingual-e5-small"


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the expert, with its real model."""
    key_file = tmp_path_factory.mktemp("expert") / "key"
    key_file.write_text(SERVICE_KEY)
    health = Health("embeddings", version="test")
    settings = Settings.model_validate({"key_file": key_file})
    with served(build_app(settings, health, new_registry())) as url:
        wait_until(lambda: health.report().ready)
        yield url


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with ExitStack() as stack:
        yield Lab(stack, tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def gateway(lab: Lab, expert: str) -> httpx2.Client:
    """A gateway with this expert and one that chats."""
    embeds = lab.at(
        expert, expert=EXPERT, chat=False, embeddings=True, tools="none", structured=False
    )
    return lab.gateway(embeds, lab.expert(ScriptedModel("small")))


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("model", [EXPERT, "auto"])
def test_official_client_gets_vectors_by_meaning(gateway: httpx2.Client, model: str) -> None:
    """Programs of others use the same expert; `auto` selects it, because the other one chats."""
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=KEY) as client:
        texts = ["The dog sleeps on the sofa.", "Der Hund schläft auf dem Sofa.", "Taxes rose."]
        found = client.embeddings.create(model=model, input=texts)
        [dog, hund, taxes] = [one.embedding for one in found.data]

    assert {len(one) for one in (dog, hund, taxes)} == {384}
    assert math.isclose(cosine(dog, dog), 1.0, rel_tol=1e-3)
    assert cosine(dog, hund) > cosine(dog, taxes) + 0.05
    assert found.usage.prompt_tokens > 10


def test_question_is_closer_to_its_answer_with_the_types_of_both(gateway: httpx2.Client) -> None:
    """The model was trained with a prefix for each; the gateway passes the field on."""

    def vector(text: str, kind: str) -> list[float]:
        body = {"model": EXPERT, "input": text, "input_type": kind}
        answer = gateway.post("/v1/embeddings", json=body).raise_for_status()
        numbers: list[float] = answer.json()["data"][0]["embedding"]
        return numbers

    text = "The router is reset by its button."

    assert vector(text, "query") != vector(text, "passage") == vector(text, "document")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"input": []}, 400),
        ({"input": ""}, 400),
        ({"input": [1, 2]}, 400),
        ({"input": "x", "dimensions": 100}, 400),
        ({"input": ["x"] * 257}, 400),
        ({"input": "a\0b"}, 200),
        ({"input": "x", "user": "me"}, 200),
    ],
)
def test_request_that_makes_no_sense_is_refused(
    gateway: httpx2.Client, fields: dict[str, object], status: int
) -> None:
    """An error of the caller has status 400, so the gateway does not take the expert for ill."""
    answer = gateway.post("/v1/embeddings", json={"model": EXPERT, **fields})

    assert answer.status_code == status, answer.text


def test_expert_needs_the_key_of_the_services(expert: str) -> None:
    """Every process of the machine can reach its port."""
    answer = httpx2.post(f"{expert}/v1/embeddings", json={"input": "x"}, trust_env=False)

    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


def test_gateway_is_not_ready_with_embeddings_alone(lab: Lab, expert: str) -> None:
    """`hearth up` waits for the gateway: without an expert that chats, nothing can be asked."""
    embeds = lab.at(expert, expert=EXPERT, chat=False, embeddings=True)
    dead = lab.at("http://127.0.0.1:9", expert="small")
    gateway = lab.gateway(embeds, dead, ready=False)
    wait_until(lambda: "multilingual" in gateway.get("/api/experts").text)
    wait_until(lambda: any(one["healthy"] for one in gateway.get("/api/experts").json()["experts"]))

    assert gateway.get("/health").status_code == 503
