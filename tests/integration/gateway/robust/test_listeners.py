"""Further listeners: Ollama's port, and callers that cannot send a key."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from moe_gateway.keys.store import KeyStore, Limits
from tests.integration.gateway.conftest import CHAT, KEY, Json, chat, gauge, wait_until
from tests.integration.gateway.conftest import Lab as GatewayLab
from tests.integration.gateway.robust.process import Gateway
from tests.integration.gateway.test_tls import Served
from tests.ports import free_port
from tests.shown import Shown

OLLAMA: Json = {"model": "small", "messages": [{"role": "user", "content": "hi"}], "stream": False}


@dataclass
class House:
    """A gateway with a listener that demands a key and one that lets 127.0.0.1 call as `apps`."""

    gateway: Gateway
    keyed: str
    open: str
    store: KeyStore

    def post(self, path: str = CHAT, *, at: str = "", source: str = "", **headers: str) -> int:
        """The status of a request to the open listener, or to another address."""
        transport = httpx2.HTTPTransport(local_address=source or None)
        body = OLLAMA if path.startswith("/api") else chat("hi")
        with httpx2.Client(transport=transport, timeout=60, trust_env=False) as client:
            return client.post(f"{at or self.open}{path}", json=body, headers=headers).status_code


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")

    with ExitStack() as stack:
        lab = GatewayLab(stack, folder)
        store = KeyStore(folder / "keys.db")
        store.add("apps", Limits(models=("small", "auto")))
        keyed, opened = free_port(), free_port()
        own = {"acts_as": "apps", "addresses": ["127.0.0.1"], "names": ["hearth.lan"]}
        listeners = [{"port": keyed}, {"port": opened, **own}]
        gateway = stack.enter_context(
            Gateway(
                folder,
                lab.expert(ScriptedModel()),
                lab.expert(ScriptedModel(), "other"),
                KEY_STORE=str(store.path),
                LISTENERS=json.dumps(listeners),
            )
        )
        yield House(gateway, f"http://127.0.0.1:{keyed}", f"http://127.0.0.1:{opened}", store)


@pytest.mark.parametrize("path", [CHAT, "/api/chat", "/v1/responses/none"])
def test_named_address_calls_without_a_key(house: House, path: str) -> None:
    """On the fast routes and on the others; the use counts for the key."""
    expected = 405 if path.startswith("/v1/responses") else 200

    assert house.post(path) == expected
    assert gauge(house.gateway.client, "moe_gateway_key_requests_total") > 0


def test_limits_of_the_key_hold(house: House) -> None:
    """A model that the key may not use is refused, and not listed."""
    body = chat("hi", "other")
    answer = httpx2.post(f"{house.open}{CHAT}", json=body, trust_env=False)
    listed = httpx2.get(f"{house.open}/api/tags", trust_env=False).json()["models"]

    assert answer.status_code == 403
    assert {one["name"] for one in listed} == {"auto", "small"}


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer ollama"},
        {"authorization": "Bearer"},
        {"x-api-key": "ollama"},
        {"host": "localhost:11434"},
        {"host": "hearth.lan"},
        {"authorization": f"Bearer {KEY}", "origin": "http://a.example", "host": "a.example"},
    ],
)
def test_programs_are_let_in(house: House, headers: dict[str, str]) -> None:
    """Also those that send Ollama's placeholder, or call by a name that was given; a key opens as
    everywhere."""
    assert house.post(**headers) == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://127.0.0.1"},
        {"host": "evil.example"},
        {"host": ""},
        {"authorization": "Bearer sk-wrong"},
        {"x-api-key": "sk-wrong"},
    ],
)
def test_pages_and_wrong_keys_are_not(house: House, headers: dict[str, str]) -> None:
    """A page could reach the address by a name of its own; a wrong key is a mistake to be told."""
    assert house.post(**headers) == 401


def test_other_addresses_need_a_key(house: House) -> None:
    """So does every other listener."""
    bearer = f"Bearer {KEY}"

    assert house.post(source="127.0.0.2") == 401
    assert house.post(source="127.0.0.2", authorization=bearer) == 200
    assert house.post(at=house.keyed) == 401
    assert house.post(at=house.keyed, authorization=bearer) == 200
    assert house.post(at=str(house.gateway.client.base_url).rstrip("/")) == 401


def test_closed_key_closes_the_listener(house: House) -> None:
    """The last test: what nobody has made, and what was closed, opens nothing."""
    house.store.revoke("apps")

    wait_until(lambda: house.post() == 401)
    assert house.post("/api/chat") == 401


def test_how_to_is_true(lab: GatewayLab, tmp_path: Path, shown: Shown) -> None:
    """What a user copies from docs/howto/connect-programs.md lets a program in on Ollama's port."""
    name, _, value = shown.take("docs/howto/connect-programs.md").strip().partition("=")
    store, port = KeyStore(tmp_path / "keys.db"), free_port()
    store.add("ollama-apps", Limits())
    settings = {
        "KEY_STORE": str(store.path),
        name.removeprefix("MOE_GATEWAY_"): value.replace("11434", str(port)),
    }
    with Gateway(tmp_path, lab.expert(ScriptedModel()), **settings):
        answer = httpx2.post(f"http://127.0.0.1:{port}/api/chat", json=OLLAMA, trust_env=False)

    assert answer.json()["message"]["content"] == "hi"


def test_plain_http_beside_tls(lab: GatewayLab, tmp_path: Path) -> None:
    """Ollama's programs know no authority of a cluster."""
    port = free_port()
    served = Served(tmp_path, MOE_GATEWAY_LISTENERS=json.dumps([{"port": port}]))
    try:
        bearer = {"authorization": f"Bearer {KEY}"}
        url = f"http://127.0.0.1:{port}/api/version"
        plain = httpx2.get(url, headers=bearer, trust_env=False)
        with served.client() as client:
            assert client.get("/api/version").json() == plain.json()
    finally:
        served.child.terminate()
        code = served.child.wait(60)
    assert code == 0
