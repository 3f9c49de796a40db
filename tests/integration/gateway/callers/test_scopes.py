"""What a key opens, and on whose behalf an agent asks."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from moe_gateway.keys.delegation import Delegation, read
from moe_gateway.keys.store import KeyStore, Limits, today
from tests.integration.gateway.conftest import (
    CHAT,
    SERVICE_KEY,
    Json,
    Lab,
    caller,
    chat,
    wait_until,
)

SECRET = SERVICE_KEY.encode()


class Agent(ScriptedModel):
    """An agent that tells what its workflows need, and may ask back at the gateway."""

    scopes: ClassVar = {"agent": "workflows", "workflow/poem": "chat", "workflow/build": "exec"}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") != "/v1/models":
            await super().__call__(scope, receive, send)
            return
        data = [{"id": name, "scope": needed} for name, needed in self.scopes.items()]
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps({"data": data}).encode()})


@dataclass
class House:
    """A gateway with an expert and an agent behind it."""

    store: KeyStore
    model: ScriptedModel
    agent: Agent
    gateway: httpx2.Client


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One for all: a key that is made counts after a second, and each test has its own."""
    folder, model, agent = tmp_path_factory.mktemp("gateway"), ScriptedModel(), Agent("agent")
    store = KeyStore(folder / "keys.db")
    model.when("inner").say("one two three")
    with ExitStack() as stack:
        lab = Lab(stack, folder)
        gateway = lab.gateway(
            lab.expert(model, slots=4), lab.agent(agent), key_store=store.path, max_depth=3
        )
        wait_until(lambda: "workflow/build" in gateway.get("/v1/models").text)
        yield House(store, model, agent, gateway)


@pytest.fixture
def gateway(house: House) -> httpx2.Client:
    return house.gateway


@pytest.fixture
def store(house: House) -> KeyStore:
    return house.store


@pytest.fixture
def model(house: House) -> ScriptedModel:
    house.model.requests.clear()
    return house.model


@pytest.fixture
def agent(house: House) -> Agent:
    house.agent.requests.clear()
    return house.agent


@contextmanager
def with_key(
    gateway: httpx2.Client, store: KeyStore, name: str, **limits: Any
) -> Iterator[httpx2.Client]:
    """A client with a key of these limits, as soon as the gateway knows it."""
    with caller(str(gateway.base_url), store.add(name, Limits(**limits))) as client:
        wait_until(lambda: client.get("/v1/models").status_code == 200)
        yield client


@pytest.mark.parametrize(
    ("scopes", "opened"),
    [
        (("chat",), {"small", "auto", "workflow/poem"}),
        (("chat", "workflows"), {"small", "auto", "workflow/poem", "agent"}),
        (("workflows",), {"agent"}),
        (("exec",), {"workflow/build"}),
        (("admin",), {"small", "auto", "workflow/poem", "agent", "workflow/build"}),
    ],
)
def test_key_opens_what_its_scopes_say(
    gateway: httpx2.Client, store: KeyStore, scopes: tuple[str, ...], opened: set[str]
) -> None:
    """A key for talking starts no workflow that runs programs, and does not see it."""
    with with_key(gateway, store, "-".join(scopes), scopes=scopes) as tablet:
        listed = {one["id"] for one in tablet.get("/v1/models").json()["data"]}
        every = {"small", "auto", *Agent.scopes}
        answers = {name: tablet.post(CHAT, json=chat("x", name)) for name in every}

    assert listed == opened
    assert {name for name, one in answers.items() if one.status_code == 200} == opened
    refused = {one.json()["error"]["code"] for n, one in answers.items() if n not in opened}
    assert refused <= {"scope_missing"}


def test_agent_is_told_who_asks_and_can_ask_on(
    gateway: httpx2.Client, store: KeyStore, agent: Agent, model: ScriptedModel
) -> None:
    """Signed, with its depth; what it then asks counts for that person, and once."""
    agent.when("go").answer(
        b'{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":50,"completion_tokens":50}}',
        headers={"x-hearth-caller": "passed on"},
    )
    with (
        with_key(gateway, store, "Anna's tablet; 1", scopes=("workflows",)) as tablet,
        caller(str(gateway.base_url), SERVICE_KEY) as service,
    ):
        answer = tablet.post(CHAT, json=chat("go", "agent"))
        told = agent.requests[0].headers["x-hearth-caller"]
        inner = service.post(CHAT, json=chat("inner"), headers={"x-hearth-caller": told})
        service.post(CHAT, json=chat("go", "agent"), headers={"x-hearth-caller": told})
        wait_until(lambda: store.usage(today()).keys() >= {"Anna's tablet; 1"})
        used = gateway.get("/metrics").text

    assert "x-hearth-caller" not in answer.headers
    assert inner.status_code == 200
    assert read(told.encode(), [SECRET]) == Delegation("Anna's tablet; 1", 1)
    deeper = agent.requests[1].headers["x-hearth-caller"]
    assert read(deeper.encode(), [SECRET]) == Delegation("Anna's tablet; 1", 2)
    assert "x-hearth-caller" not in model.requests[0].headers
    assert 'moe_gateway_key_tokens_total{key="Anna\'s tablet; 1",kind="completion"} 3.0' in used
    assert 'moe_gateway_key_requests_total{key="Anna\'s tablet; 1"} 3.0' in used


def test_budget_holds_for_what_an_agent_asks(
    gateway: httpx2.Client, store: KeyStore, model: ScriptedModel
) -> None:
    """A run of somebody whose budget is spent, or whose key is closed, gets no more tokens."""
    with with_key(gateway, store, "child", tokens_per_day=3):
        pass
    told = {"x-hearth-caller": Delegation("child", 1).signed(SECRET).decode()}
    with caller(str(gateway.base_url), SERVICE_KEY) as service:
        first = service.post(CHAT, json=chat("inner"), headers=told)
        second = service.post(CHAT, json=chat("inner"), headers=told)
        store.revoke("child")
        wait_until(lambda: service.post(CHAT, json=chat("inner"), headers=told).status_code == 403)
        third = service.post(CHAT, json=chat("inner"), headers=told)
        own = service.post(CHAT, json=chat("inner"))

    assert first.status_code == own.status_code == 200
    assert (second.status_code, second.json()["error"]["code"]) == (429, "insufficient_quota")
    assert third.json()["error"]["code"] == "caller_closed"


def test_agent_that_asks_itself_for_ever_is_stopped(gateway: httpx2.Client, agent: Agent) -> None:
    """400, so that nobody sends it again; an expert may still be asked at that depth."""
    told = {"x-hearth-caller": Delegation("key", 3).signed(SECRET).decode()}
    with caller(str(gateway.base_url), SERVICE_KEY) as service:
        refused = service.post(CHAT, json=chat("x", "agent"), headers=told)
        expert = service.post(CHAT, json=chat("x"), headers=told)

    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "recursion_too_deep")
    assert expert.status_code == 200
    assert agent.requests == []


@pytest.mark.parametrize(
    "told",
    [
        "key;1;" + "0" * 64,
        Delegation("key", 1).signed(b"another secret").decode(),
        Delegation("key", 1).signed(SECRET).decode().replace("key;1", "key;0"),
        Delegation("nobody", 1).signed(SECRET).decode() + "x",
        "x", ";;", ";", "%00;1;",
    ],
)  # fmt: skip
def test_forged_caller_is_refused(gateway: httpx2.Client, told: str) -> None:
    """Nobody may spend another one's budget by writing a name into a header."""
    with caller(str(gateway.base_url), SERVICE_KEY) as service:
        answer = service.post(CHAT, json=chat("x"), headers={"x-hearth-caller": told})

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "invalid_caller")


def test_only_the_house_asks_on_others_behalf(gateway: httpx2.Client, store: KeyStore) -> None:
    """A header that leaked is worth nothing with another key."""
    told = {"x-hearth-caller": Delegation("key", 1).signed(SECRET).decode()}
    with with_key(gateway, store, "tablet") as tablet:
        answer = tablet.post(CHAT, json=chat("x"), headers=told)

    assert answer.json()["error"]["code"] == "invalid_caller"


class TestOverHttp:
    """`/api/keys` for a machine without a shell on the gateway's."""

    def test_key_is_made_changed_and_closed(self, gateway: httpx2.Client, store: KeyStore) -> None:
        """The same as `hearth keys`, within the same second."""
        made = gateway.post("/api/keys", json={"name": "guest", "models": ["small"]})
        with caller(str(gateway.base_url), made.json()["key"]) as guest:
            wait_until(lambda: guest.get("/v1/models").status_code == 200)
            again = gateway.post("/api/keys", json={"name": "guest"})
            limited = gateway.put("/api/keys/guest", json={"scopes": ["chat", "exec"]})
            keys: list[Json] = gateway.get("/api/keys").json()["keys"]
            listed = next(one for one in keys if one["name"] == "guest")
            closed = gateway.delete("/api/keys/guest")
            wait_until(lambda: guest.get("/v1/models").status_code == 401)

        assert made.status_code == 201
        assert again.status_code == 409
        assert (limited.status_code, closed.status_code) == (200, 200)
        assert listed["scopes"] == ["chat", "exec"]
        assert listed["models"] == ["*"]
        assert made.json()["key"] not in json.dumps(listed)
        assert gateway.delete("/api/keys/guest").status_code == 404

    @pytest.mark.parametrize("scopes", [("chat",), ("chat", "workflows", "exec")])
    def test_only_admins_manage_keys(
        self, gateway: httpx2.Client, store: KeyStore, scopes: tuple[str, ...]
    ) -> None:
        """Whoever can make keys can give themselves everything."""
        with with_key(gateway, store, f"{len(scopes)} scopes", scopes=scopes) as guest:
            answers = [
                guest.get("/api/keys"),
                guest.post("/api/keys", json={"name": "x", "scopes": ["admin"]}),
                guest.put("/api/keys/key", json={"scopes": ["admin"]}),
                guest.delete("/api/keys/key"),
            ]

        assert [one.status_code for one in answers] == [403] * 4
        assert "x" not in [key.name for key in store.all()]

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            ({}, "name"), ({"name": ""}, "name"), ({"name": "x\n"}, "name"),
            ({"title": "x"}, "name"), ({"name": "x", "scopes": ["root"]}, "scopes.0"),
            ({"name": "x", "models": []}, "models"),
            ({"name": "x", "tokens_per_day": 0}, "tokens_per_day"), ([], None),
        ],
    )  # fmt: skip
    def test_limits_that_make_no_sense_are_refused(
        self, gateway: httpx2.Client, body: Json, param: str | None
    ) -> None:
        """In OpenAI's shape, like every error, with the field as the caller has written it."""
        answer = gateway.post("/api/keys", json=body)

        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["param"] == param
        assert error["message"].startswith(f"{param or 'The body'}: ")

    @pytest.mark.parametrize("body", [b"", b"{", b'{"name": "x"} y'])
    def test_body_that_is_no_json_is_refused_as_elsewhere(
        self, gateway: httpx2.Client, body: bytes
    ) -> None:
        """400 with the reason."""
        kind = {"content-type": "application/json"}
        answer = gateway.post("/api/keys", content=body, headers=kind)

        assert answer.status_code == 400
        assert "JSON" in answer.text if body else "The body: " in answer.text
