"""Every path is driven, those that fail most of all; then all that was written down is searched."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx2
import pytest
from starlette.types import Receive, Scope, Send
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import moe_gateway
from hearth.openai_api.testing import ScriptedModel
from moe_gateway.keys.delegation import Delegation
from moe_gateway.keys.store import KeyStore, Limits
from tests.integration.gateway.api.speech import Speech
from tests.integration.gateway.conftest import (
    CHAT,
    KEY,
    SERVICE_KEY,
    Json,
    Lab,
    caller,
    chat,
    raw,
    wait_until,
)
from tests.integration.gateway.robust.process import Gateway

EXTENDED_INPUTS = ["moe_gateway/**"]

PROMPT = "PROMPT-THAT-MUST-STAY-PRIVATE"
EXPERT_KEY = "sk-hearth-of-that-server"
NOT_DRIVEN = {
    "request_not_read",  # A mistake of our own; what is known of one is mended.
    "usage_not_written",  # The disk is full when the service stops.
    "circuit_open",  # Here none opens, so that every fault is met by a server.
    "instances_changed", "instances_file_unusable",  # A file that only `hearth up` writes.
    "instance_lost", "instance_unusable", "instance_not_ready_yet",  # No request leads to these.
    "power_manager_unavailable",  # No machine sleeps here.
}  # fmt: skip
"""What the gateway writes into its log on no path that is gone here."""
ENDS = {"caller_gone", "key_closed", "deadline_passed"}
"""Why an answer was cut off, as the log says it."""
FAULTS = (
    "reset early", "close late", "malformed late", "error late", "hang early", "half-closed late",
)  # fmt: skip


class FailingAgent(ScriptedModel):
    """An agent that breaks off each Realtime session at its first event."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or one session."""
        if scope["type"] != "websocket":
            await super().__call__(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        await send({"type": "websocket.close", "code": 1011, "reason": PROMPT})


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[tuple[Gateway, str]]:
    """The gateway after all that happened to it, and the key that was made meanwhile."""
    model = ScriptedModel(key=SERVICE_KEY)
    for fault in FAULTS:
        how, _, place = fault.partition(" ")
        model.when(fault).lose(f"{PROMPT} b c", after=2 * (place == "late"), how=how)  # type: ignore[arg-type]
    model.when("refused").refuse(500, f"I cannot say {PROMPT}.")
    model.when("slow").say(f"{PROMPT} " * 500, pause=0.1)
    wise = ScriptedModel()
    wise.when(PROMPT).say(f"It is about {PROMPT}.")
    with ExitStack() as stack:
        lab = Lab(stack, tmp_path)
        gateway = stack.enter_context(
            Gateway(
                tmp_path,
                lab.expert(model, stops_unary=False, slots=4),
                lab.expert(ScriptedModel(key=EXPERT_KEY), "locked"),
                *(lab.expert(model, "pair") for _ in range(2)),
                lab.expert(wise, "wise", auto=False),
                lab.expert(ScriptedModel(), "coder", cost=9, domains=["code"]),
                lab.agent(FailingAgent("agent")),
                lab.at(lab.serve(Speech("stt")), speech="stt"),
                lab.at(lab.serve(Speech("tts", breaks=True)), speech="tts"),
                KEY_STORE=str(tmp_path / "keys.db"),
                FIRST_BYTE_TIMEOUT="1.5",
                IDLE_TIMEOUT="1",
                MAX_BODY_BYTES="8192",
                BODY_SECONDS="0.5",
                CIRCUIT_FAILURES="1000",
                DEADLINE_SECONDS="5",
                CLASSIFIER="wise",
                DOMAINS='{"code": "x", "food": "y"}',
            )
        )
        _talk(gateway.client)
        _end_early(gateway)
        _speak(gateway.client)
        _talk_in_a_session(gateway.client)
        made = _manage_keys(gateway.client)
        _close_a_key(gateway)
        _restore_keys(gateway, tmp_path / "keys.db.restored")
        _come_in_wrongly(gateway)
        yield gateway, made


def _talk(client: httpx2.Client) -> None:
    for text in ("fine", "refused", *FAULTS):
        for stream in (False, True):
            said = f"{PROMPT} {text}"
            client.post(CHAT, json=chat(said, stream=stream))
            client.post("/v1/responses", json={"model": "small", "input": said, "stream": stream})
    client.post("/v1/completions", json={"model": "auto", "prompt": PROMPT})
    client.post("/v1/embeddings", json={"model": "small", "input": PROMPT})
    client.post(CHAT, json=chat(PROMPT, "auto"))
    client.post(CHAT, json=chat(f"{PROMPT} reset early", "pair"))
    for name in ("agent", "locked", "auto", f"{PROMPT}-model"):
        client.post(CHAT, json=chat(PROMPT, name, metadata={"domain": PROMPT}))


def _end_early(gateway: Gateway) -> None:
    """Callers who hang up, and an answer that takes too long."""
    for stream in (False, True):
        with gateway.connect() as connection:
            connection.sendall(raw(gateway.client, chat(f"{PROMPT} slow", stream=stream)))
            if stream:
                connection.recv(100)
    # On a busy machine the model may be silent for IDLE_TIMEOUT, which ends the answer first.
    for _ in range(5):
        gateway.client.post(CHAT, json=chat(f"{PROMPT} slow"))
        if "deadline_passed" in gateway.text:
            break
    wait_until(lambda: gateway.text.count("caller_gone") == 2)


def _speak(client: httpx2.Client) -> None:
    form: Json = {"model": "whisper-1", "prompt": PROMPT}
    client.post("/v1/audio/transcriptions", data=form, files={"file": PROMPT.encode()})
    client.post("/v1/audio/transcriptions", content=PROMPT.encode())
    with pytest.raises(httpx2.TransportError):
        client.post("/v1/audio/speech", json={"model": "tts-1", "input": PROMPT})


def _talk_in_a_session(client: httpx2.Client) -> None:
    """Realtime, with an agent that breaks off."""
    url = f"{client.base_url}".replace("http", "ws", 1).rstrip("/")
    key = {"authorization": f"Bearer {KEY}"}
    with connect(f"{url}/v1/realtime?model=agent", additional_headers=key) as session:
        session.send(json.dumps({"type": "response.create", "event_id": PROMPT}))
        with pytest.raises(ConnectionClosed):
            session.recv(60)


def _manage_keys(client: httpx2.Client) -> str:
    made: str = client.post("/api/keys", json={"name": "tablet"}).json()["key"]
    client.post("/api/keys", json={"name": "tablet"})
    client.post("/api/keys", json={"name": PROMPT * 9})
    client.put("/api/keys/tablet", json={"tokens_per_day": 1})
    client.get(f"/api/keys/{PROMPT}")
    client.delete(f"/api/keys/{PROMPT}")
    return made


def _close_a_key(gateway: Gateway) -> None:
    """While an answer is on its way for it."""
    key = gateway.client.post("/api/keys", json={"name": "guest"}).json()["key"]
    with (
        caller(str(gateway.client.base_url), key) as guest,
        guest.stream("POST", CHAT, json=chat(f"{PROMPT} slow", stream=True)) as answer,
    ):
        gateway.client.delete("/api/keys/guest")
        answer.read()


def _restore_keys(gateway: Gateway, file: Path) -> None:
    """Those of a backup, one of them with a name of the house's own, and something that is none."""
    backup = KeyStore(file.with_name("backup.db"))
    for name in ("kitchen", "mine"):
        backup.add(name, Limits())
    with closing(sqlite3.connect(backup.path)) as db, db:
        db.execute("UPDATE key SET name = 'service_key' WHERE name = 'mine'")
    backup.path.replace(file)
    wait_until(lambda: "restored_keys_taken_in" in gateway.text)
    wait_until(lambda: "key_not_opened" in gateway.text)
    file.write_text(f"{PROMPT} " * 999)
    wait_until(lambda: "keys_readable_again" in gateway.text)


def _come_in_wrongly(gateway: Gateway) -> None:
    client = gateway.client
    client.get(f"/{PROMPT}", headers={"x-secret": PROMPT})
    client.post(CHAT, json=chat(PROMPT * 500))
    client.post(CHAT, content=f'{{"model": "small", "messages": [{PROMPT}'.encode())
    client.post(CHAT, json={"model": [PROMPT]})
    client.post(CHAT, json=chat(PROMPT), headers={"x-request-id": f"{PROMPT} {PROMPT}"})
    client.post(CHAT, json=chat(PROMPT), headers={"authorization": "Bearer sk-hearth-guessed"})
    with caller(str(client.base_url), SERVICE_KEY) as agent:
        for told in (Delegation("key", 1).signed(SERVICE_KEY.encode()).decode(), PROMPT, "key;1;0"):
            agent.post(CHAT, json=chat(PROMPT), headers={"x-hearth-caller": told})
    half = f"POST {CHAT} HTTP/1.1\r\nAuthorization: Bearer {KEY}\r\nContent-Length: 999\r\n\r\n"
    with gateway.connect() as connection:
        connection.sendall(half.encode() + json.dumps(chat(PROMPT)).encode())
        connection.recv(65536)


def events() -> set[str]:
    """All that the gateway can write into its log, by its own source."""
    package = Path(moe_gateway.__file__).parent
    source = "\n".join(file.read_text() for file in package.rglob("*.py"))
    found = set(re.findall(r'\blog\.\w+\(\s*"(\w+)"', source))
    assert found > NOT_DRIVEN, "the source writes its events otherwise than it did"
    return found | ENDS


@pytest.mark.extended
def test_nothing_that_is_written_down_holds_a_key_or_a_prompt(
    driven: tuple[Gateway, str], tmp_path: Path
) -> None:
    """People read logs and figures, and send them around; files are copied into backups."""
    gateway, made = driven
    shown = gateway.client.get("/metrics").text + gateway.client.get("/api/experts").text
    gateway.child.terminate()
    assert gateway.child.wait(60) == 0
    with closing(sqlite3.connect(tmp_path / "keys.db")) as db:
        kept = "\n".join(db.iterdump())

    assert {event for event in events() if f"event={event} " not in gateway.text} <= NOT_DRIVEN
    assert "Traceback" not in gateway.text
    for secret in (PROMPT, KEY, SERVICE_KEY, EXPERT_KEY, made, "sk-hearth", "guessed"):
        assert secret not in gateway.text
        assert secret not in shown
        assert secret not in kept
