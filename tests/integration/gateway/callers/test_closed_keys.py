"""A key that is closed opens nothing any more, and what is under way for it ends."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import openai
import pytest

from hearth.openai_api.testing import ScriptedModel
from moe_gateway.keys.store import KeyStore, Limits
from tests.integration.gateway.api.speech import SOUND, Speech
from tests.integration.gateway.conftest import CHAT, Lab, caller, chat, events, gauge, wait_until

TTS = "/v1/audio/speech"
HOURS = 3600.0
"""How long an expert pauses between two words that nobody is to wait for."""


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "keys.db")


@pytest.fixture
def model() -> ScriptedModel:
    model = ScriptedModel()
    model.when("go").say("one two three", pause=HOURS)
    return model


@pytest.fixture
def voice() -> Speech:
    return Speech("tts")


@pytest.fixture
def gateway(lab: Lab, store: KeyStore, model: ScriptedModel, voice: Speech) -> httpx2.Client:
    return lab.gateway(
        lab.expert(model), lab.at(lab.serve(voice), speech="tts"), key_store=store.path
    )


@pytest.fixture
def tablet(gateway: httpx2.Client, store: KeyStore) -> Iterator[httpx2.Client]:
    with caller(str(gateway.base_url), store.add("tablet", Limits())) as client:
        wait_until(lambda: client.get("/v1/models").status_code == 200)
        yield client


def is_at_rest(gateway: httpx2.Client) -> bool:
    return gauge(gateway, "moe_gateway_in_flight") + gauge(gateway, "moe_gateway_waiting") == 0


def test_stream_of_a_key_that_is_closed_ends_with_an_error(
    gateway: httpx2.Client, tablet: httpx2.Client, store: KeyStore, model: ScriptedModel
) -> None:
    """Within seconds, and without the end that a whole one has; its slot is free."""
    with tablet.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        model.wait_until(lambda m: m.words_sent >= 1)
        store.revoke("tablet")
        found = events(answer)

    assert found[-1]["error"]["code"] == "invalid_api_key"
    assert "[DONE]" not in found
    wait_until(lambda: is_at_rest(gateway))


def test_whole_answer_for_a_key_that_is_closed_is_refused(
    gateway: httpx2.Client, tablet: httpx2.Client, store: KeyStore, model: ScriptedModel
) -> None:
    """401, which the official client does not send again."""
    url, key = f"{gateway.base_url}/v1", tablet.headers["authorization"].removeprefix("Bearer ")
    refused: list[openai.AuthenticationError] = []

    def ask() -> None:
        with (
            openai.OpenAI(base_url=url, api_key=key) as client,
            pytest.raises(openai.AuthenticationError) as error,
        ):
            client.chat.completions.create(
                model="small", messages=[{"role": "user", "content": "go"}]
            )
        refused.append(error.value)

    asker = threading.Thread(target=ask)
    asker.start()
    wait_until(lambda: not is_at_rest(gateway))
    store.revoke("tablet")
    asker.join(60)

    assert [one.code for one in refused] == ["invalid_api_key"]
    assert len(model.requests) == 1
    wait_until(lambda: is_at_rest(gateway))


def test_sound_for_a_key_that_is_closed_breaks_off(
    gateway: httpx2.Client, tablet: httpx2.Client, store: KeyStore, voice: Speech
) -> None:
    """It has no place for an error."""
    voice.held = threading.Event()
    found: list[bytes] = []
    try:
        with tablet.stream("POST", TTS, json={"model": "tts-1", "input": "x"}) as answer:
            pieces = answer.iter_raw()
            found.append(next(pieces))
            store.revoke("tablet")
            with pytest.raises(httpx2.RemoteProtocolError):
                found.extend(pieces)
    finally:
        voice.held.set()

    assert SOUND.startswith(b"".join(found))
    wait_until(lambda: is_at_rest(gateway))


def test_others_go_on(
    gateway: httpx2.Client, tablet: httpx2.Client, store: KeyStore, model: ScriptedModel
) -> None:
    """Neither another key that is closed nor other limits of this one end anything."""
    model.when("slowly").say("word " * 40, pause=0.1)
    with caller(str(gateway.base_url), store.add("guest", Limits())) as guest:
        wait_until(lambda: guest.get("/v1/models").status_code == 200)
        with tablet.stream("POST", CHAT, json=chat("slowly", stream=True)) as answer:
            model.wait_until(lambda m: m.words_sent >= 1)
            store.revoke("guest")
            store.limit("tablet", Limits(tokens_per_day=1000))
            wait_until(lambda: guest.get("/v1/models").status_code == 401)
            found = events(answer)

    assert found[-1] == "[DONE]"
