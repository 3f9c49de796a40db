"""The store of responses, where a gateway cannot show it."""

from moe_gateway.keys.limits import Caller
from moe_gateway.responses.store import ResponseStore


def test_closed_key_takes_its_responses_along() -> None:
    """What a person has asked does not stay in memory after the key is closed."""
    guest, other = Caller("guest"), Caller("other")
    store = ResponseStore(60, 10, 1000, 1000)
    for caller in (guest, other):
        store.of(caller).keep("resp_1", b'{"output": []}', (b"[]",))

    store.forget([guest])

    assert store.of(guest).get("resp_1") is None
    assert store.of(other).get("resp_1") is not None


def test_size_is_that_of_what_is_kept() -> None:
    """Else a key that deletes its responses would run out of room."""
    own = ResponseStore(60, 2, 1000, 1000).of(Caller("guest"))
    for name in ("a", "b", "c"):
        own.keep(name, b"12345", (b"123", b"12"))
    assert own.size == 20

    assert own.remove("c")
    assert not own.remove("a")
    assert own.size == 10
