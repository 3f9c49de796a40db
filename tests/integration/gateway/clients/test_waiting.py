"""The official clients read a stream that had to wait: its head is out before anybody was chosen,
and signs of life, places in the queue and who answered come as comments before its first event."""

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import KEY, Lab, chat, send_raw

NODE = """
import OpenAI from "openai";
const client = new OpenAI({ maxRetries: 0, timeout: 60_000 });
const messages = [{ role: "user", content: "second" }];
const made = client.chat.completions.create({ model: "small", messages, stream: true });
const { data, response } = await made.withResponse();
console.log(response.headers.get("x-hearth-route"));
for await (const chunk of data) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
"""


class Busy:
    """A gateway whose only slot is taken until it is `held` no more."""

    def __init__(self, lab: Lab) -> None:
        model, self.held = ScriptedModel(), threading.Event()
        model.when("first").say("done", held=self.held)
        model.when("second").say("Good day to you.")
        gateway = lab.gateway(lab.expert(model, slots=1), keepalive_seconds=0.05)
        self.url = f"{gateway.base_url}/v1"
        self.first = send_raw(gateway, chat("first"))
        model.wait_until(lambda one: one.running == 1)


@pytest.fixture
def busy(lab: Lab) -> Iterator[Busy]:
    busy = Busy(lab)
    with busy.first:
        yield busy
        busy.held.set()


@pytest.fixture
def client(busy: Busy) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=busy.url, api_key=KEY, max_retries=0) as client:
        yield client


def test_python_client_reads_a_chat_that_waited(busy: Busy, client: openai.OpenAI) -> None:
    """Its first chunk has the role, and nothing of the comments is taken for a word."""
    with client.chat.completions.create(
        model="small", messages=[{"role": "user", "content": "second"}], stream=True
    ) as stream:
        busy.held.set()
        deltas = [chunk.choices[0].delta for chunk in stream]

    assert stream.response.headers["x-hearth-route"] == "queued"
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "Good day to you."


def test_python_client_reads_a_response_that_waited(busy: Busy, client: openai.OpenAI) -> None:
    """The newer endpoint, whose events have names; a comment has none."""
    with client.responses.create(model="small", input="second", stream=True) as stream:
        busy.held.set()
        events = list(stream)

    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "Good day to you."


def test_python_client_reads_a_text_that_waited(busy: Busy, client: openai.OpenAI) -> None:
    """The older endpoint."""
    with client.completions.create(model="small", prompt="second", stream=True) as stream:
        busy.held.set()
        texts = [chunk.choices[0].text for chunk in stream]

    assert "".join(texts) == "Good day to you."


def test_node_client_reads_a_chat_that_waited(busy: Busy, node_client: Path) -> None:
    """Its reader of events is another one; the script says when the head has come."""
    command = ["node", "--input-type=module", "-e", NODE]
    own = {"OPENAI_BASE_URL": busy.url, "OPENAI_API_KEY": KEY}
    with subprocess.Popen(
        command, cwd=node_client, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True
    ) as script:
        assert script.stdout is not None
        route = script.stdout.readline()
        busy.held.set()
        said = script.stdout.read()

    assert (route, said) == ("queued\n", "Good day to you.")
