"""Who gets in, from where, and what every answer carries."""

import re
from collections.abc import Iterator

import httpx2
import pytest
from fastapi.routing import APIRoute, APIWebSocketRoute
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from pipecatapp.app import ROUTERS
from tests.integration.agent.conftest import House

OPEN = {("POST", "/api/session"), ("DELETE", "/api/session")}
OWN_TOKEN = {("GET", "/api/errands/x"), ("PUT", "/api/errands/x"), ("POST", "/hooks/x")}
"""An errand is opened by its own token only, and a webhook by its own signature; neither is there
for anybody else, whatever key."""


def routes() -> Iterator[tuple[str, str]]:
    """Every route below /api and /v1, with something in the place of its parameters."""
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIWebSocketRoute):
                continue
            assert isinstance(route, APIRoute)
            for method in sorted(route.methods or ()):
                yield method, re.sub(r"\{[^}]*\}", "x", route.path)


@pytest.fixture
def page(house: House) -> Iterator[httpx2.Client]:
    """A browser that is logged in."""
    with httpx2.Client(base_url=house.address, trust_env=False, timeout=120) as client:
        assert client.post("/api/session", json={"key": house.key}).status_code == 200
        yield client


def test_every_route_asks_for_a_key(house: House) -> None:
    """One forgotten route would be the way in."""
    every = set(routes()) - OPEN - OWN_TOKEN

    assert len(every) >= 14
    with httpx2.Client(base_url=house.address, trust_env=False, timeout=60) as client:
        for method, path in sorted(OWN_TOKEN):
            assert client.request(method, path).status_code == 404
        for method, path in sorted(every):
            for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "hearth_session=x"}):
                answer = client.request(method, path, headers=headers)
                assert answer.status_code == 401, (method, path, headers)
                assert answer.json()["error"]["code"] == "invalid_api_key"


def test_every_socket_asks_for_a_key(house: House) -> None:
    """A conversation that anybody may open is a microphone in the room."""
    sockets = [r.path for one in ROUTERS for r in one.routes if isinstance(r, APIWebSocketRoute)]

    assert "/api/voice" in sockets
    for path in sockets:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": "hearth_session=x"}):
            url = f"ws{house.address.removeprefix('http')}{path}"
            with (
                pytest.raises(InvalidStatus, match="403"),
                connect(url, additional_headers=headers, proxy=None, open_timeout=60),
            ):
                pass


def test_both_keys_open_and_health_and_metrics_need_none(house: House) -> None:
    """People have one key, the gateway the other; a watchdog has none."""
    for key in (house.key, "sk-hearth-services"):
        with house.client(key=key) as client:
            assert client.get("/v1/models").status_code == 200

    health = httpx2.get(f"{house.address}/health", timeout=60)
    assert (health.status_code, health.json()["ready"]) == (200, True)
    assert httpx2.get(f"{house.address}/metrics", timeout=60).status_code == 200


def test_session_begins_with_the_key_and_ends_with_the_log_out(
    house: House, page: httpx2.Client
) -> None:
    """The page keeps no key; scripts cannot read its cookie."""
    assert page.get("/api/session").json() == {"authenticated": True}
    assert page.get("/api/runs").status_code == 200
    cookie = page.post("/api/session", json={"key": house.key}).headers["set-cookie"]

    page.delete("/api/session")

    assert page.get("/api/session").status_code == 401
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/" in cookie
    assert house.key not in cookie


def test_wrong_key_gets_no_session_and_says_where_the_right_one_is(house: House) -> None:
    """Whoever lost the key finds it; whoever guesses learns nothing."""
    with httpx2.Client(base_url=house.address, trust_env=False, timeout=60) as client:
        answer = client.post("/api/session", json={"key": "sk-hearth-peoplE"})

    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "hearth status" in answer.json()["error"]["message"]
    assert house.key not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_sites_page_cannot_use_the_session(
    house: House, page: httpx2.Client, headers: dict[str, str]
) -> None:
    """A page on another port of this machine has our cookies with its requests."""
    answers = [
        page.get("/api/runs", headers=headers),
        page.post("/api/runs", json={"workflow": "agent-turn"}, headers=headers),
        page.post("/v1/chat/completions", json={}, headers=headers),
        page.post("/api/session", json={"key": house.key}, headers=headers),
        page.delete("/api/session", headers=headers),
    ]

    assert {answer.status_code for answer in answers} == {403}
    assert answers[0].json()["error"]["code"] == "foreign_origin"
    assert page.get("/api/runs").json()["runs"] == []


def test_own_page_and_programs_with_a_key_are_let_in(house: House, page: httpx2.Client) -> None:
    """Browsers name our origin with every POST; a key is a proof of its own."""
    own = {"origin": house.address, "sec-fetch-site": "same-origin"}

    assert page.get("/api/runs", headers=own).status_code == 200
    with house.client() as client:
        assert client.get("/api/runs", headers={"origin": "http://other"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/runs", "/v1/models", "/nothing"])
def test_every_answer_forbids_what_the_page_does_not_need(house: House, path: str) -> None:
    """An injected script finds nothing that would run it, and nowhere to send what it saw."""
    with house.client() as client:
        headers = client.get(path).headers

    assert "script-src 'self'" in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "unsafe" not in headers["content-security-policy"]


def test_page_is_sent_once_and_then_only_when_it_changed(house: House) -> None:
    """The ETag is what makes the page quick without going stale."""
    with httpx2.Client(base_url=house.address, trust_env=False, timeout=60) as client:
        first = client.get("/")
        again = client.get("/", headers={"if-none-match": first.headers["etag"]})
        script = client.get("/static/app.js")

    assert first.headers["content-type"] == "text/html; charset=utf-8"
    assert (again.status_code, again.content) == (304, b"")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/x.js"]
)
def test_what_is_no_part_of_the_page_is_404(house: House, path: str) -> None:
    """The folder of the page lies beside our code."""
    with house.client() as client:
        assert client.get(path).status_code == 404


def test_body_beyond_the_limit_is_refused_before_it_is_read_whole(empty_house: House) -> None:
    """One caller must not fill the memory of the house."""
    empty_house.more["max_body_bytes"] = 1000

    with empty_house.running(), empty_house.client() as client:
        declared = client.post("/api/plan", json={"document": "x" * 2000})
        unmeasured = client.post("/api/plan", content=iter([b"x" * 600] * 10))
        small = client.post("/api/plan", json={"document": "x"})

    assert (declared.status_code, unmeasured.status_code, small.status_code) == (413, 413, 200)
    assert declared.json()["error"]["code"] == "request_too_large"


def test_request_id_is_the_callers_when_it_is_a_plain_word(house: House) -> None:
    """One id leads through the logs of all services; a strange one must not break them."""
    with house.client() as client:
        kept = client.get("/v1/models", headers={"x-request-id": "abc-1"})
        made = client.get("/v1/models", headers={"x-request-id": 'a" b=c'})

    assert kept.headers["x-request-id"] == "abc-1"
    assert re.fullmatch(r"[0-9a-f]{32}", made.headers["x-request-id"])


def test_errors_of_the_framework_have_the_same_body_as_ours(house: House) -> None:
    """A client shows `error.message`; `detail` would be lost on people."""
    with house.client() as client:
        answers = {
            404: client.get("/api/nothing"),
            405: client.put("/api/runs"),
            400: client.post(
                "/api/plan", content=b"{", headers={"content-type": "application/json"}
            ),
            415: client.post("/api/plan", content=b"{", headers={"content-type": "text/json"}),
        }

    for status, answer in answers.items():
        assert answer.status_code == status, answer.text
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
