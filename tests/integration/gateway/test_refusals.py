"""What the gateway itself refuses: always with OpenAI's error body."""

import gzip
import json
from collections.abc import Iterator
from contextlib import ExitStack

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import CHAT, KEY, Json, Lab, caller, chat, send_raw


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """One for all: refusals leave no traces."""
    with ExitStack() as stack:
        lab = Lab(stack, tmp_path_factory.mktemp("gateway"))
        expert = lab.expert(ScriptedModel(), tools="none", context=2048)
        yield lab.gateway(expert, max_body_bytes=8192)


def error(answer: httpx2.Response, status: int) -> Json:
    """The error of an answer, after a look at its shape."""
    assert answer.status_code == status, answer.text
    found: Json = answer.json()["error"]
    assert {"message", "type", "param", "code"} <= found.keys()
    assert "x-request-id" in answer.headers
    assert "openai-processing-ms" in answer.headers
    return found


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings", "/v1/models", "/api/experts", "/nope"])
@pytest.mark.parametrize("key", ["", "sk-wrong", KEY[:-1], KEY + "x"])
def test_nothing_opens_without_a_key(gateway: httpx2.Client, path: str, key: str) -> None:
    """Not even what does not exist: it tells strangers nothing."""
    with caller(str(gateway.base_url), key or "none") as stranger:
        if not key:
            del stranger.headers["authorization"]
        answer = stranger.request("POST" if path == CHAT else "GET", path)

    assert error(answer, 401)["code"] == "invalid_api_key"
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "sk-hearth" not in answer.text


@pytest.mark.parametrize("path", ["/health", "/metrics"])
def test_health_and_metrics_need_no_key(gateway: httpx2.Client, path: str) -> None:
    """Watchers have none."""
    with caller(str(gateway.base_url), "none") as stranger:
        assert stranger.get(path).status_code == 200


@pytest.mark.parametrize("name", ["smallx", "Small", "SMALL", "small:latest", "openai/small"])
def test_unknown_model_is_told_the_near_one(gateway: httpx2.Client, name: str) -> None:
    """A typing mistake costs one look; so does a name as other servers and clients write it."""
    found = error(gateway.post(CHAT, json=chat("x", name)), 404)

    assert found["code"] == "model_not_found"
    assert "Did you mean 'small'? Known models: auto, small." in found["message"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"{", None),
        (b"[]", None),
        (b"\xff\xfe", None),
        (b"{}", "model"),
        (b'{"model": 3}', "model"),
        (b'{"model": "small", "stream": "no"}', "stream"),
        (b'{"model": "small", "messages": [ ]}', "messages"),
        (b'{"model": "small", "messages": %s}' % (b"[" * 2000 + b"]" * 2000), None),
        (b'{"model": "small", "tools": %s1%s}' % (b'{"a":' * 1000, b"}" * 1000), None),
    ],
)
def test_body_that_cannot_be_read_is_refused(
    gateway: httpx2.Client, body: bytes, param: str | None
) -> None:
    """400, so that no client sends it again."""
    found = error(gateway.post(CHAT, content=body), 400)

    assert found["param"] == param
    assert found["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("body", "encoding", "status", "words"),
    [
        (gzip.compress(b"{}"), "gzip", 415, "compressed (Content-Encoding: gzip)"),
        (b'\xef\xbb\xbf{"model": "small"}', "identity", 400, "byte order mark"),
        ('{"model": "small"}'.encode("utf-16"), "", 400, "UTF-16, not UTF-8"),
        (b'{"model": "auto", "user": "J\xfcrgen"}', "", 400, "'utf-8' codec"),
        (json.dumps(chat("cut \ud83d")).encode(), "", 400, "in the middle of a sign"),
        (json.dumps(chat("another \ude00")).encode(), "", 400, "in the middle of a sign"),
    ],
)
def test_body_in_another_encoding_is_named(
    gateway: httpx2.Client, body: bytes, encoding: str, status: int, words: str
) -> None:
    """`invalid character (byte 0)` would send people searching in their JSON."""
    headers = {"content-encoding": encoding} if encoding else {}
    answer = gateway.post(CHAT, content=body, headers=headers)

    assert words in error(answer, status)["message"]


@pytest.mark.parametrize("path", ["//v1/chat/completions", "/v1/chat/completions/", "/v1//models/"])
def test_slash_too_many_is_passed_over(gateway: httpx2.Client, path: str) -> None:
    """A base URL that ends with one, and a program whose paths begin with one."""
    url = f"{str(gateway.base_url).rstrip('/')}{path}"
    answer = gateway.get(url) if "models" in path else gateway.post(url, json=chat("x"))

    assert answer.status_code == 200
    assert answer.json()["object"] in ("list", "chat.completion")


@pytest.mark.parametrize("chunked", [False, True])
def test_body_that_is_too_large_is_refused(gateway: httpx2.Client, *, chunked: bool) -> None:
    """The limit holds whether or not the caller says the length first."""
    body = json.dumps(chat("x" * 9000)).encode()
    pieces = iter([body[:1500], body[1500:]])
    answer = gateway.post(CHAT, content=pieces if chunked else body)

    assert "MOE_GATEWAY_MAX_BODY_BYTES" in error(answer, 413)["message"]
    assert gateway.post(CHAT, json=chat("x")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", CHAT, 405, "method_not_allowed"),
        ("OPTIONS", CHAT, 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/", 404, "not_found"),
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/docs", 404, "not_found"),
        ("GET", "/v1/models/smallx", 404, "model_not_found"),
        ("POST", "/chat/completions", 404, "not_found"),
        ("POST", "/v1/v1/chat/completions", 404, "not_found"),
    ],
)
def test_wrong_paths_and_methods_get_the_same_shape(
    gateway: httpx2.Client, method: str, path: str, status: int, code: str
) -> None:
    """Clients show `error.message`; a bare `detail` would be lost. Most often it is the base URL
    that is wrong, so that is what is asked for."""
    answer = gateway.request(method, path)

    found = error(answer, status)
    assert found["code"] == code
    if code == "not_found":
        assert f"{method} {path}: Not Found. OpenAI's API is at /v1: " in found["message"]
    assert "access-control-allow-origin" not in answer.headers
    if status == 405:
        assert "allow" in answer.headers


def test_auto_refuses_what_no_expert_can(gateway: httpx2.Client) -> None:
    """Better a reason than an answer that quietly ignored the tools."""
    tools = [{"type": "function", "function": {"name": "f"}}]
    found = error(gateway.post(CHAT, json=chat("x", "auto", tools=tools)), 400)

    assert found["code"] == "no_capable_expert"
    assert "small takes no tools" in found["message"]
    assert gateway.post(CHAT, json=chat("x", "small", tools=tools)).status_code == 200


def test_wrong_key_for_a_server_is_the_gateways_fault(lab: Lab) -> None:
    """The caller's key was right: 401 would send them searching in the wrong place."""
    model = ScriptedModel(key="another")
    gateway = lab.gateway(lab.expert(model))

    found = error(gateway.post(CHAT, json=chat("x")), 502)

    assert found["code"] == "upstream_refused_key"


def test_garbage_on_the_wire_harms_nobody(gateway: httpx2.Client) -> None:
    """The next caller is served."""
    connection = send_raw(gateway, chat("x"))
    connection.sendall(b"\x16\x03\x01 no http at all\r\n\r\n")
    connection.close()

    assert gateway.post(CHAT, json=chat("x")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/files"), ("GET", "/v1/files"), ("POST", "/v1/moderations"),
        ("POST", "/v1/images/edits"), ("GET", "/v1/responses/resp_1/input_items"),
        ("POST", "/v1/threads/t/runs"), ("GET", "/v1"),
    ],
)  # fmt: skip
def test_unknown_route_is_one_clean_404(gateway: httpx2.Client, method: str, path: str) -> None:
    """Whatever the method and the body: a client tells its person that this is not there."""
    bodies: list[Json] = [{}, {"json": {"input": "x"}}, {"files": {"file": ("a.txt", b"a")}}]
    for body in bodies if method == "POST" else [{}]:
        answer = gateway.request(method, path, **body)

        assert error(answer, 404)["code"] == "not_found"
        assert answer.headers["x-hearth-expert"] == "none"
