"""The official Node client, pinned, is the second judge of what OpenAI-compatible means."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.gateway.clients.conftest import Clients
from tests.shown import Shown

PICTURE = "data:image/png;base64,iVBORw0KGgo="
Results = dict[str, Any]


@pytest.fixture(scope="module")
def results(clients: Clients, node_client: Path) -> Results:
    """What the client made of every case."""
    ended = subprocess.run(
        ["node", "conformance.mjs"], cwd=node_client, capture_output=True, text=True, timeout=600,
        env=clients.environment(node_client), check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found: Results = json.loads(ended.stdout)
    return found


def test_node_client_understands_every_answer(results: Results, clients: Clients) -> None:
    """Web interfaces and editors speak through this client; each case is something they do."""
    assert results["whole"]["choices"][0]["message"]["content"] == "Good day to you."
    assert results["streamed"]["words"] == 4
    completion = results["streamed"]["completion"]
    assert completion["choices"][0]["message"]["content"] == "Good day to you."
    assert completion["usage"]["completion_tokens"] == 4
    calls = results["toolCalls"]["completion"]["choices"][0]["message"]["tool_calls"]
    assert [json.loads(call["function"]["arguments"])["zone"] for call in calls] == ["UTC", "CET"]
    assert results["models"] == ["auto", "small", "smollm2"]
    assert results["model"]["id"] == "small"
    assert results["completion"]["choices"][0]["text"].startswith("Good day")
    assert results["headers"]["x-hearth-expert"] == "small"
    assert all(results["headers"].values()), results["headers"]
    # It asks for base64 by itself and takes a list of floats for an empty vector.
    assert results["embeddings"] == [results["embeddings"][0]] * 2
    assert results["embeddings"][0] > 0
    assert results["toolResults"] == "It is noon."
    assert results["picture"] == "Good day to you."
    assert any(PICTURE in json.dumps(one.body) for one in clients.model.requests)
    assert results["retried"] == "Now."
    clients.model.wait_until(lambda model: model.aborted == 1, timeout=60)


def test_node_client_reads_responses(results: Results) -> None:
    """The newer endpoint, whole and as events."""
    assert results["responses"]["whole"] == "Good day to you."
    assert results["responses"]["streamed"] == "Good day to you."
    assert results["responses"]["kinds"][-1] == "response.completed"


def test_node_client_holds_the_real_model_to_a_schema(results: Results) -> None:
    """The grammar makes even the smallest model keep to it."""
    river = results["schema"]
    assert river.keys() == {"name", "length_km"}
    assert isinstance(river["name"], str)
    assert 3 <= len(river["name"]) <= 12
    assert isinstance(river["length_km"], int)
    assert 1 <= river["length_km"] <= 9999


def test_node_client_raises_its_class_for_each_failure(results: Results) -> None:
    """What a program can catch is what its author has read in the documentation of the client."""
    kinds = {
        name: (results[name]["kind"], results[name]["status"])
        for name in ("unknownModel", "wrongKey", "refused")
    }

    assert kinds == {
        "unknownModel": ("NotFoundError", 404),
        "wrongKey": ("AuthenticationError", 401),
        "refused": ("RateLimitError", 429),
    }
    assert "Did you mean" in results["unknownModel"]["message"]
    assert results["unknownModel"]["request"]


def test_node_client_does_not_take_a_broken_stream_for_an_answer(results: Results) -> None:
    """It takes one that merely ends for whole; ours says in an event what happened."""
    broken = results["broken"]

    assert broken["words"] == 2
    assert broken["kind"] == "APIError"
    assert broken["code"] == "upstream_lost"
    assert "127.0.0.1" in broken["message"]
    assert results["brokenHelper"]["kind"] == "APIError"


def test_node_client_asks_again_what_may_go_better_and_nothing_else(results: Results) -> None:
    """Three times what clients retry on; once what will not change, or what the gateway or a server
    asks not to be asked again (`x-should-retry`)."""
    kinds = {
        "400": ("BadRequestError", 1),
        "401": ("InternalServerError", 1),
        "403": ("PermissionDeniedError", 1),
        "404": ("NotFoundError", 1),
        "408": ("APIError", 3),
        "409": ("ConflictError", 3),
        "413": ("APIError", 1),
        "422": ("UnprocessableEntityError", 1),
        "429": ("RateLimitError", 3),
        "500": ("InternalServerError", 3),
        "502": ("InternalServerError", 3),
        "503": ("InternalServerError", 3),
        "final": ("InternalServerError", 1),
    }

    found = {name: (one["kind"], one["requests"]) for name, one in results["asked"].items()}
    assert found == kinds
    # A server that refuses the gateway's own key is no matter of its caller's.
    statuses = {name: one["status"] for name, one in results["asked"].items()}
    assert statuses == {name: int(name) for name in kinds if name != "final"} | {
        "401": 502,
        "final": 500,
    }


def test_how_to_is_true(clients: Clients, node_client: Path, shown: Shown) -> None:
    """What a user copies from docs/howto/connect-programs.md works as it stands."""
    ended = subprocess.run(
        ["bash", "-euc", shown.take("docs/howto/connect-programs.md")], cwd=node_client,
        env=clients.environment(node_client), capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip

    assert ended.stdout == "Good day to you.\n", ended.stderr
