"""One HTTP contract: the same mistakes at the real gateway, agent and speech services.

Each service receives its requests as clients send them. Where a service has no such mistake, its
entry is the reason, which the documentation repeats.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from moe_gateway.keys.store import KeyStore, Limits
from tests.integration.agent.conftest import House, ScriptedGateway
from tests.integration.gateway.conftest import CHAT, KEY, SERVICE_KEY, Lab, caller, chat, wait_until
from tests.integration.speech.conftest import KEY as SPEECH_KEY
from tests.integration.speech.conftest import Speech
from tests.rules.tree import ROOT

MEBIBYTE = 1024 * 1024
SAY, HEAR = "/v1/audio/speech", "/v1/audio/transcriptions"
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain; charset=utf-8"}
PAGE = ROOT / "docs" / "howto" / "call-the-api.md"
LONG = "far too long for the context"
FILE = {"file": ("a.wav", b"RIFF")}

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
BLIND = """
id: blind
inputs: {messages: messages}
steps: [{id: said, use: llm, model: small, with: {messages: "{{ inputs.messages }}"}}]
outputs: {text: "{{ said.text }}"}
"""
SERVICES = ("gateway", "agent", "tts", "stt")

Request = tuple[str, str, dict[str, Any]]


@dataclass(frozen=True)
class Mistake:
    """The request for each service, and the expected answer."""

    status: int
    code: str
    gateway: Request | str
    agent: Request | str
    tts: Request | str
    stt: Request | str


def get(path: str, **more: Any) -> Request:
    return "GET", path, more


def post(path: str, **more: Any) -> Request:
    return "POST", path, more


def everywhere(request: Request) -> dict[str, Request]:
    return dict.fromkeys(SERVICES, request)


def picture(model: str, **more: Any) -> Request:
    """A chat with an image."""
    parts = [{"type": "text", "text": "look"}, PICTURE]
    messages = [{"role": "user", "content": parts}]
    return post(CHAT, json={"model": model, "messages": messages, **more})


def large(
    path: str, mebibytes: int, content_type: str, head: bytes = b"", *, declared: bool
) -> Request:
    """A body that begins with `head`, sent with its length or in chunks."""
    headers = {"content-type": content_type}
    if declared:
        headers["content-length"] = str(mebibytes * MEBIBYTE + len(head))
    return post(path, content=[head, *[b"x" * MEBIBYTE] * mebibytes], headers=headers)


def too_large(*, declared: bool) -> Mistake:
    """The limits of gateway and agent are set to 1 MiB, speech has its default limits."""
    chats = large(CHAT, 2, "application/json", declared=declared)
    say = large(SAY, 27, "application/json", declared=declared)
    head = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    hear = large(HEAR, 27, "multipart/form-data; boundary=b", head, declared=declared)
    return Mistake(413, "request_too_large", chats, chats, say, hear)


IS_A_FORM = "a transcription is requested with a form"
NO_NUMBERS = "the form of a transcription has no number with a limit"
NO_COUNT = "a request for speech has no count"
ANY_MODEL = "a speech service has one model and accepts any name, since clients send `whisper-1`"
NO_SCOPES = "the keys of agent and speech open everything; the gateway checks scopes"
NO_CONTEXT = "speech has no context; texts and recordings have their own limits"
NO_CHAT = "a speech service takes no messages"

MISTAKES = {
    "unknown path": Mistake(404, "not_found", **everywhere(get("/v1/nothing"))),
    "wrong key": Mistake(
        401, "invalid_api_key",
        **everywhere(get("/v1/models", headers={"authorization": "Bearer sk-wrong"})),
    ),
    "no key": Mistake(
        401, "invalid_api_key", **everywhere(get("/v1/models", headers={"authorization": ""}))
    ),
    "unknown model": Mistake(
        404, "model_not_found", post(CHAT, json=chat("x", "nobody")),
        post(CHAT, json=chat("x", "nobody")), ANY_MODEL, ANY_MODEL,
    ),
    "bad JSON": Mistake(
        400, "invalid_json", post(CHAT, content=b'{"model": ', headers=JSON),
        post(CHAT, content=b'{"model": ', headers=JSON),
        post(SAY, content=b'{"input": ', headers=JSON), IS_A_FORM,
    ),
    "no UTF-8": Mistake(
        400, "invalid_json", post(CHAT, content=b'{"model": "\xff"}', headers=JSON),
        post(CHAT, content=b'{"model": "\xff"}', headers=JSON),
        post(SAY, content=b'{"input": "\xff"}', headers=JSON), IS_A_FORM,
    ),
    "wrong field": Mistake(
        400, "invalid_type", post(CHAT, json=chat("x") | {"model": 3}),
        post(CHAT, json=chat("x") | {"model": 3}), post(SAY, json={"input": "x", "model": 3}),
        post(HEAR, files=FILE, data={"model": "x", "stream": "perhaps"}),
    ),
    "missing field": Mistake(
        400, "missing_required_parameter", post(CHAT, json={"messages": []}),
        post(CHAT, json={"messages": [{"role": "user", "content": "x"}]}),
        post(SAY, json={"model": "x"}), post(HEAR, files=FILE),
    ),
    "body too large": too_large(declared=True),
    "body too large, without its length": too_large(declared=False),
    "wrong method": Mistake(
        405, "method_not_allowed", get(CHAT), get(CHAT), get(SAY), get(HEAR)
    ),
    "wrong content type": Mistake(
        415, "unsupported_content_type", post(CHAT, content=b"{}", headers=TEXT),
        post(CHAT, content=b"{}", headers=TEXT), post(SAY, content=b"{}", headers=TEXT),
        post(HEAR, content=b"{}", headers=JSON),
    ),
    "wrong id": Mistake(404, "model_not_found", **everywhere(get("/v1/models/nobody"))),
    "forbidden scope": Mistake(
        403, "scope_missing", get("/api/keys"),
        NO_SCOPES, NO_SCOPES, NO_SCOPES,
    ),
    "negative number": Mistake(
        400, "decimal_below_min_value", post(CHAT, json=chat("x", temperature=-1)),
        post(CHAT, json=chat("x", "agent", temperature=-1)),
        post(SAY, json={"input": "x", "speed": -1}), NO_NUMBERS,
    ),
    "negative count": Mistake(
        400, "integer_below_min_value", post(CHAT, json=chat("x", max_tokens=-5)),
        post(CHAT, json=chat("x", "agent", max_tokens=-5)),
        NO_COUNT, NO_NUMBERS,
    ),
    "context overflow": Mistake(
        400, "context_length_exceeded", post(CHAT, json=chat(LONG)),
        post(CHAT, json=chat(LONG, "agent")), NO_CONTEXT, NO_CONTEXT,
    ),
    "context overflow of a stream": Mistake(
        400, "context_length_exceeded", post(CHAT, json=chat(LONG, stream=True)),
        post(CHAT, json=chat(LONG, "workflow/two-drafts", stream=True)), NO_CONTEXT, NO_CONTEXT,
    ),
    "image for a model of text": Mistake(
        400, "invalid_value", picture("small"), picture("workflow/blind"), NO_CHAT, NO_CHAT
    ),
    "image for a model of text, streamed": Mistake(
        400, "invalid_value", picture("small", stream=True), picture("workflow/blind", stream=True),
        NO_CHAT, NO_CHAT,
    ),
    "image for a workflow of text": Mistake(
        400, "invalid_value", picture("small"), picture("workflow/summarize"),
        NO_CHAT, NO_CHAT,
    ),
}  # fmt: skip

REQUESTS = [
    (name, service)
    for name, mistake in MISTAKES.items()
    for service in SERVICES
    if not isinstance(getattr(mistake, service), str)
]


@pytest.fixture(scope="module")
def clients(
    speech: Speech, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, httpx2.Client]]:
    """Clients of the running services; `guest` has a key for the gateway without scopes.

    The agent uses the tested gateway, whose expert answers as llama-server does.
    """
    folder = tmp_path_factory.mktemp("contract")
    expert, store = ScriptedModel(), KeyStore(folder / "keys.db")
    expert.when(LONG).refuse(400, "Too long.", type="exceed_context_size_error")
    expert.when("look").refuse(500, "image input is not supported - hint: mmproj")
    with ExitStack() as stack:
        lab = Lab(stack, folder)
        gateway = lab.gateway(lab.expert(expert), key_store=store.path, max_body_bytes=MEBIBYTE)
        house = House(
            folder / "state", ScriptedGateway(), str(gateway.base_url).rstrip("/"),
            key=KEY, more={"max_body_bytes": MEBIBYTE},
        )  # fmt: skip
        (house.state / "workflows").mkdir(parents=True)
        (house.state / "workflows" / "blind.yaml").write_text(BLIND, encoding="utf-8")
        for name, key in (("key", KEY), ("service_key", SERVICE_KEY)):
            (house.state / name).write_text(key, encoding="utf-8")
        stack.enter_context(house.running())
        agent = stack.enter_context(house.client())
        guest = stack.enter_context(caller(str(gateway.base_url), store.add("guest", Limits())))
        wait_until(lambda: guest.get("/v1/models").status_code == 200)
        voices = [stack.enter_context(caller(url, SPEECH_KEY)) for url in (speech.tts, speech.stt)]
        yield dict(zip((*SERVICES, "guest"), (gateway, agent, *voices, guest), strict=True))


@pytest.mark.parametrize(("name", "service"), REQUESTS)
def test_same_mistake_has_the_same_answer_everywhere(
    clients: dict[str, httpx2.Client], name: str, service: str
) -> None:
    """A client that works with one service handles the errors of all of them."""
    mistake = MISTAKES[name]
    method, path, more = getattr(mistake, service)
    client = clients["guest" if mistake.status == 403 else service]

    answer = client.request(method, path, **more)

    assert answer.status_code == mistake.status, answer.text
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", mistake.code), answer.text
    assert error.keys() >= {"message", "param"}
    assert ("allow" in answer.headers) is (mistake.status == 405)
    assert ("www-authenticate" in answer.headers) is (mistake.status == 401)


def test_page_lists_each_mistake_with_its_answer_and_its_exceptions() -> None:
    """Readers learn from the page which service has no such mistake, and why."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rows = {row[0]: row[1:] for row in cells if row[0] in MISTAKES}

    assert len(rows) == 12
    for name, (answer, exceptions) in rows.items():
        mistake = MISTAKES[name]
        requests = [getattr(mistake, service) for service in SERVICES]
        reasons = {request for request in requests if isinstance(request, str)}
        assert answer == f"{mistake.status} `{mistake.code}`"
        assert exceptions == "; ".join(reasons)
