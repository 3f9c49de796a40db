"""The document of the API, and what models tell of themselves."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import openai
import pytest
from starlette.requests import Request
from starlette.responses import Response

from hearth.openai_api.testing import ScriptedModel
from hearth.service.health import Health
from moe_gateway.app import build_app
from tests.integration.gateway.conftest import CHAT, KEY, Lab, caller, chat

OF_THE_DESIGN = {
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models", "/v1/models/{name}",
    "/v1/responses", "/v1/audio/transcriptions", "/v1/audio/speech", "/health", "/metrics",
    "/api/experts",
}  # fmt: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with ExitStack() as stack:
        lab = Lab(stack, tmp_path_factory.mktemp("gateway"))
        yield lab.gateway(
            lab.expert(ScriptedModel("tiny-135m"), aliases=["tiny"], context=2048, tools="none"),
            lab.expert(ScriptedModel(), "vectors", embeddings=True, chat=False, cost=0.1),
            lab.agent(ScriptedModel("agent")),
            cors_origins=["https://ui.home.lan"],
        )


def test_document_lists_every_route(gateway: httpx2.Client) -> None:
    """The hot ones too, which FastAPI does not know."""
    document = gateway.get("/openapi.json").json()

    assert document["openapi"].startswith("3.1")
    assert document["paths"].keys() >= OF_THE_DESIGN
    for path in OF_THE_DESIGN:
        path = path.replace("{name}", "small")
        method = (
            "get"
            if path in ("/health", "/metrics") or "post" not in _of(document, path)
            else "post"
        )
        answer = gateway.request(method, path, content=b"" if method == "post" else None)
        assert answer.status_code not in (404, 405), path


def _of(document: Any, path: str) -> Any:
    return document["paths"].get(path) or document["paths"]["/v1/models/{name}"]


def test_model_tells_what_it_is(gateway: httpx2.Client) -> None:
    """A client can see what it may send before it sends it."""
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=KEY) as client:
        found: dict[str, Any] = {model.id: model.model_dump() for model in client.models.list()}
        one = client.models.retrieve("tiny").model_dump()

    assert list(found) == ["auto", "small", "tiny", "vectors", "agent"]
    assert found["auto"]["kind"] == "router"
    assert found["agent"]["kind"] == "agent"
    assert found["small"]["context_length"] == 2048
    assert found["small"]["capabilities"] == ["chat", "json"]
    assert found["vectors"]["capabilities"] == ["embeddings"]
    assert one["alias_of"] == "small"
    assert one["runs"] == "tiny-135m"


def test_talk_never_goes_to_an_expert_for_vectors(gateway: httpx2.Client) -> None:
    """However cheap it is; and vectors never come from one that talks."""
    talk = gateway.post(CHAT, json=chat("x", "auto"))
    vectors = gateway.post("/v1/embeddings", json={"model": "auto", "input": "x"})

    assert talk.headers["x-hearth-expert"] == "small"
    assert vectors.headers["x-hearth-expert"] == "vectors"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"), ("GET", "/api/experts"), ("GET", "/health"), ("GET", "/nope"),
        ("POST", CHAT), ("GET", CHAT), ("POST", "/v1/responses"), ("GET", "/metrics"),
    ],
)  # fmt: skip
def test_every_answer_says_where_it_comes_from(
    gateway: httpx2.Client, method: str, path: str
) -> None:
    """Refusals and the gateway's own answers too: no answer leaves the reader guessing."""
    answer = gateway.request(method, path)

    assert answer.headers["x-hearth-route"]
    assert answer.headers["x-hearth-expert"] == "none"
    assert answer.headers["x-request-id"]
    assert answer.headers["openai-processing-ms"].isdigit()


class TestCors:
    """Pages of the named origins may call; those of others may not read a word."""

    def test_page_of_a_named_origin_may_call(self, gateway: httpx2.Client) -> None:
        """The browser asks first, without a key."""
        origin = {"origin": "https://ui.home.lan"}
        with caller(str(gateway.base_url), "none") as browser:
            asked = browser.options(
                CHAT, headers=origin | {"access-control-request-method": "POST"}
            )
        answer = gateway.post(CHAT, json=chat("x"), headers=origin)

        assert asked.status_code == 204
        assert "POST" in asked.headers["access-control-allow-methods"]
        assert "authorization" in asked.headers["access-control-allow-headers"]
        for one in (asked, answer):
            assert one.headers["access-control-allow-origin"] == "https://ui.home.lan"
            assert one.headers["x-request-id"]
            assert one.headers["x-hearth-route"]
            assert one.headers["openai-processing-ms"].isdigit()
            assert one.headers["vary"] == "Origin", "a cache must not give it to another page"
            assert "access-control-allow-credentials" not in one.headers
        for name in ("x-hearth-route", "x-should-retry"):
            assert name in answer.headers["access-control-expose-headers"]

    def test_no_page_may_call_where_none_is_named(self, lab: Lab) -> None:
        """Nobody has thought of pages there, so none may read what a browser's owner can ask."""
        gateway = lab.gateway(lab.expert(ScriptedModel()))
        origin = {"origin": "https://ui.home.lan"}
        asked = gateway.options(CHAT, headers=origin | {"access-control-request-method": "POST"})
        answers = [gateway.post(CHAT, json=chat("x"), headers=origin), gateway.get("/v1/models")]

        assert asked.status_code == 405
        for one in (asked, *answers):
            assert "access-control-allow-origin" not in one.headers

    def test_page_of_another_origin_is_told_nothing(self, gateway: httpx2.Client) -> None:
        """Without these headers no browser shows it the answer."""
        origin = {"origin": "https://elsewhere.example"}
        asked = gateway.options(CHAT, headers=origin | {"access-control-request-method": "POST"})
        answer = gateway.get("/v1/models", headers=origin)

        assert "access-control-allow-origin" not in asked.headers
        assert "access-control-allow-origin" not in answer.headers

    def test_star_lets_every_page_call_that_has_a_key(self, lab: Lab) -> None:
        """The key is what opens; an `OPTIONS` that no browser asks beforehand is no way past it."""
        gateway = lab.gateway(lab.expert(ScriptedModel()), cors_origins=["*"])
        origin = {"origin": "https://any.example"}
        with caller(str(gateway.base_url), "none") as page:
            refused = page.post(CHAT, json=chat("x"), headers=origin)
            odd = page.options(CHAT, headers=origin)
        answer = gateway.post(CHAT, json=chat("x"), headers=origin)

        assert (answer.status_code, refused.status_code, odd.status_code) == (200, 401, 401)
        for one in (answer, refused, odd):
            assert one.headers["access-control-allow-origin"] == "https://any.example"


def test_unknown_name_goes_to_the_default_where_there_is_one(lab: Lab) -> None:
    """For programs whose model cannot be set; it is said that this happened."""
    model = ScriptedModel()
    gateway = lab.gateway(lab.expert(model), default_model="small")

    answer = gateway.post(CHAT, json=chat("x", "gpt-5\tx"))

    assert answer.status_code == 200
    assert model.requests[0].body["model"] == "small"
    assert answer.headers["x-hearth-route"].endswith("the default for a name that nobody has")


def test_vectors_come_in_the_encoding_that_was_asked_for(lab: Lab) -> None:
    """Also from a server that knows one only: node's client takes numbers for no vector."""
    app = _numbers_only
    gateway = lab.gateway(lab.at(lab.serve(app), expert="small", embeddings=True))
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=KEY) as client:
        raw = gateway.post(
            "/v1/embeddings", json={"model": "small", "input": "x", "encoding_format": "base64"}
        ).json()
        vector = client.embeddings.create(model="small", input="x").data[0].embedding

    assert isinstance(raw["data"][0]["embedding"], str)
    assert vector == [0.5, -2.0, 1.0]


def test_failure_that_nobody_thought_of_has_the_shape_of_all_others(lab: Lab) -> None:
    """Clients show `error.message`, and may ask again; what went wrong is in the log alone."""

    async def fail(request: Request) -> Response:
        raise RuntimeError("sk-secret of somebody")

    app = build_app(lab.settings(), Health("moe-gateway", version="test"))
    app.rest.add_route("/api/broken", fail)
    with caller(lab.serve(app)) as client:
        answer = client.get("/api/broken")

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "sk-secret" not in answer.text
    assert answer.headers["x-request-id"]


async def _numbers_only(scope: Any, receive: Any, send: Any) -> None:
    """A server that knows no base64."""
    if scope["type"] == "lifespan":
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
        return
    body = b'{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-2,1.0]}]}'
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
