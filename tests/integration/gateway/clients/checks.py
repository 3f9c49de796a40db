"""Checks that the clients on the official client of OpenAI have in common."""

from collections.abc import Collection

from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.conftest import Json


def assert_official_classes(found: Json) -> None:
    """Each refusal raises the class of the official client, with the words of the gateway."""
    names = ("refused", "wrong", "unknownModel", "wrongKey")
    assert {name: found[name]["kind"] for name in names} == {
        "refused": "RateLimitError",
        "wrong": "BadRequestError",
        "unknownModel": "NotFoundError",
        "wrongKey": "AuthenticationError",
    }
    assert_words_of_the_gateway(found)


def assert_words_of_the_gateway(found: Json) -> None:
    """The messages of the model, of the gateway and of a broken stream reach the program."""
    assert "Too many." in found["refused"]["message"]
    assert "That is no request." in found["wrong"]["message"]
    assert "Did you mean 'small'" in found["unknownModel"]["message"]
    assert "the connection was reset" in found["broken"]


def assert_streams_stopped(results: Json, clients: Clients, interfaces: Collection[str]) -> None:
    """One stream of each interface was abandoned, and the model stopped each."""
    assert all(results[name]["abandoned"] for name in interfaces)
    clients.model.wait_until(lambda model: model.aborted == len(interfaces), timeout=60)
