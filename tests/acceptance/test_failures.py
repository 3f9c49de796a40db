"""What a user sees when parts of the whole are killed, and what is never lost."""

import json
import os
import signal
import time
from collections.abc import Callable

import httpx2
import pytest
from openai import APIError, Stream
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from tests.acceptance.conftest import Instance

LONG: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "Tell a very long story about a lighthouse and its keeper."}
]

MOST_TOKENS = 3500
"""What an answer has that nobody stops, since it goes on at the end of its text: almost all of the
context.
"""


def pid_of(instance: Instance, name: str) -> int:
    status = json.loads(instance.place.run("hearth", "status", "--json").stdout)
    return int(next(s["pid"] for s in status["services"] if s["name"] == name))


def wait(until: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def busy_slots(expert: httpx2.Client) -> int:
    return sum(slot["is_processing"] for slot in expert.get("/slots").json())


def tokens_of(expert: httpx2.Client) -> int:
    """How many tokens the expert has made, by its own account."""
    name = "llamacpp:tokens_predicted_total "
    lines = expert.get("/metrics").text.splitlines()
    return next(int(line.removeprefix(name)) for line in lines if line.startswith(name))


def healthy(instance: Instance) -> bool:
    return instance.place.run("hearth", "status").returncode == 0


@pytest.mark.parametrize("model", ["smollm2", "agent"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "unary"])
def test_hanging_up_stops_the_generation(instance: Instance, model: str, *, stream: bool) -> None:
    """A closed tab frees the expert: its own slots say so."""
    body = {
        "model": model, "messages": LONG, "stream": stream, "max_tokens": MOST_TOKENS,
        "ignore_eos": True,
        "temperature": 0,  # The agent does not pass ignore_eos on; this answer has no end.
    }  # fmt: skip
    headers = {"Authorization": f"Bearer {instance.key}"}
    with instance.expert() as expert:
        wait(lambda: busy_slots(expert) == 0, 60, "expert idle before")
        before = tokens_of(expert)
        patience = httpx2.Timeout(60, read=60 if stream else 3)
        with httpx2.Client(headers=headers, timeout=patience) as caller:
            if stream:
                with caller.stream("POST", f"{instance.api}/chat/completions", json=body) as answer:
                    assert answer.status_code == 200, answer.read()
                    lines = answer.iter_lines()  # kept: its end would hang up
                    next(lines)
                    wait(lambda: busy_slots(expert) > 0, 60, f"{model} works")
            else:
                with pytest.raises(httpx2.ReadTimeout):
                    caller.post(f"{instance.api}/chat/completions", json=body)

        wait(lambda: busy_slots(expert) == 0, 60, "expert idle after the caller hung up")
        assert tokens_of(expert) - before < MOST_TOKENS


def test_killed_expert_ends_the_stream_with_an_error_and_comes_back(instance: Instance) -> None:
    """A broken answer must not look like a finished one, and the next one works."""
    expert = pid_of(instance, "llama-expert-smollm2")
    with instance.client() as client:
        stream: Stream[ChatCompletionChunk] = client.chat.completions.create(
            model="smollm2", messages=LONG, stream=True, max_tokens=MOST_TOKENS,
            extra_body={"ignore_eos": True},
        )  # fmt: skip
        next(stream)
        os.kill(expert, signal.SIGKILL)
        with pytest.raises(APIError):
            list(stream)

        wait(lambda: healthy(instance), 180, "expert restarted")
        again = client.chat.completions.create(model="smollm2", messages=LONG, max_tokens=8)
    assert again.choices[0].message.content


def test_killed_agent_resumes_its_run(instance: Instance) -> None:
    """A run outlives the process that began it: nothing is lost."""
    inputs = {
        "text": "Tell a long story about a lighthouse.", "max_tokens": 400, "temperature": 0,
    }  # fmt: skip
    agent = pid_of(instance, "pipecatapp")
    with instance.http() as http:
        run = http.post("/api/runs", json={"workflow": "agent-turn", "inputs": inputs}).json()[
            "run"
        ]
        with http.stream("GET", f"/api/runs/{run}/events") as events:
            for line in events.iter_lines():
                if line == "event: delta":
                    break
        os.kill(agent, signal.SIGKILL)

        wait(lambda: healthy(instance), 180, "agent restarted")
        wait(lambda: http.get(f"/api/runs/{run}").json()["status"] != "running", 180, "run ended")
        view = http.get(f"/api/runs/{run}").json()
        with http.stream("GET", f"/api/runs/{run}/events") as events:
            types = [line[7:] for line in events.iter_lines() if line.startswith("event: ")]

    assert view["status"] == "done", view["error"]
    assert view["outputs"]["text"]
    assert "run.resumed" in types
