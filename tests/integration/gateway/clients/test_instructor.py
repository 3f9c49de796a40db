"""Instructor: programs that want objects instead of text."""

from pathlib import Path

import pytest

from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.conftest import Json
from tests.shown import Shown

EXTENDED_INPUTS = [
    "tests/clients/instructor/*",
    "docs/howto/connect-programs.md",
    "tests/integration/gateway/clients/conftest.py",
    "moe_gateway/requests/pipeline.py",
    "moe_gateway/errors.py",
    "moe_gateway/requests/translated.py",
    "moe_gateway/routing/turns.py",
    "moe_gateway/responses/*",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def results(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> Json:
    return clients.results("instructor", tmp_path_factory.mktemp("instructor"))


def test_instructor_reads_objects_out_of_tool_calls(results: Json, clients: Clients) -> None:
    """Its default: a forced call, whole, as a stream, with several calls and with a picture."""
    assert results["whole"] == "cat clock.txt"
    assert results["responses"] == "cat clock.txt"
    assert results["streamed"] == {"several": True, "last": "cat clock.txt"}
    assert results["parallel"] == [{"zone": "UTC"}, {"zone": "CET"}]
    assert results["picture"] == "cat clock.txt"
    clients.model.wait_until(lambda model: model.aborted == 1, timeout=60)


def test_instructor_holds_the_real_model_to_a_schema(results: Json) -> None:
    """`JSON_SCHEMA` needs no tools; an answer that a validator refuses is asked for once more."""
    assert results["river"].keys() == {"name", "continent"}
    assert results["corrected"]["attempts"] == 2


def test_instructor_tells_why_it_failed(results: Json) -> None:
    """By its own class, with the official exception as its cause."""
    names = ("refused", "wrong", "noTools", "unknownModel", "wrongKey")

    assert {name: results[name]["kind"] for name in names} == {
        "refused": "RateLimitError",
        "wrong": "BadRequestError",
        "noTools": "BadRequestError",
        "unknownModel": "NotFoundError",
        "wrongKey": "AuthenticationError",
    }
    assert "Too many." in results["refused"]["message"]
    assert "has no template for tools" in results["noTools"]["message"]
    assert "Did you mean 'small'" in results["unknownModel"]["message"]
    assert "the connection was reset" in results["broken"]


def test_how_to_is_true(clients: Clients, shown: Shown, tmp_path: Path) -> None:
    """The lines that a user copies from docs/howto/connect-programs.md work unchanged."""
    page = "docs/howto/connect-programs.md"
    said = clients.run("instructor", tmp_path, "-c", shown.take(page))

    assert said.startswith("name=")
