"""`/v1/rerank` with a real llama-server. SmolLM2 was not made for ranking, so its scores mean
nothing; the form of the request and of the answer is the server's own."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.gateway.clients.real import llama_server, smollm2
from tests.integration.gateway.conftest import Json, Lab

EXTENDED_INPUTS = [
    "tests/integration/gateway/clients/real.py",
    "moe_gateway/requests/pipeline.py",
    "moe_gateway/routing/*",
    "moe_gateway/http/*",
]
pytestmark = pytest.mark.extended

ASK: Json = {"model": "ranks", "query": "bread", "documents": ["A bear.", "Take flour.", "Hm."]}


def test_real_server_ranks(tmp_path: Path) -> None:
    """The best first, as many as were asked for."""
    with ExitStack() as stack:
        lab = Lab(stack, tmp_path)
        able = stack.enter_context(
            llama_server(smollm2(), tmp_path, "--rerank", "--ctx-size", "512")
        )
        gateway = lab.gateway(lab.at(able, expert="ranks", rerank=True, chat=False))
        answer = gateway.post("/v1/rerank", json={**ASK, "top_n": 2})

    found = answer.raise_for_status().json()
    scores = [one["relevance_score"] for one in found["results"]]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)
    assert found["usage"]["prompt_tokens"] > 0
    assert answer.headers["x-hearth-expert"] == "ranks"
