"""The scripted model as a process, as the end-to-end test of a cluster starts it."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.ports import free_port

RULES = [
    {"when_role": "tool", "say": "It is all well."},
    {"when": "cluster", "call": "cluster.status", "arguments": {"full": True}},
    {"when": "snow", "say": "Take a coat."},
]


@contextmanager
def scripted(rules: Path, *options: str) -> Iterator[httpx2.Client]:
    port = free_port()
    command = [sys.executable, "-m", "hearth.openai_api.scripted", str(rules), "--port", str(port)]
    headers = {"authorization": "Bearer secret"}
    with (
        subprocess.Popen([*command, *options]) as process,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client,
    ):
        try:
            _wait_for(client, process)
            yield client
        finally:
            process.terminate()


def _wait_for(client: httpx2.Client, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            client.get("/health")
        except httpx2.ConnectError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("It does not answer.")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(RULES), encoding="utf-8")
    return file


def test_rules_of_the_file_are_followed(rules: Path, tmp_path: Path) -> None:
    """The test of a cluster must know what the model will ask for."""
    (tmp_path / "key").write_text("secret", encoding="utf-8")
    user = {"role": "user", "content": "How is the cluster?"}
    turns = (
        [{"role": "user", "content": "snow"}],
        [user],
        [user, {"role": "tool", "content": "{}"}],
    )

    with scripted(rules, "--name", "e2e", "--key-file", str(tmp_path / "key")) as client:
        answers = [
            client.post("/v1/chat/completions", json={"model": "e2e", "messages": turn}).json()
            for turn in turns
        ]
        models = client.get("/v1/models").json()["data"]

    messages = [answer["choices"][0]["message"] for answer in answers]
    assert [model["id"] for model in models] == ["e2e"]
    assert messages[0]["content"] == "Take a coat."
    assert messages[1]["tool_calls"][0]["function"]["name"] == "cluster.status"
    assert json.loads(messages[1]["tool_calls"][0]["function"]["arguments"]) == {"full": True}
    assert messages[2]["content"] == "It is all well."


@pytest.mark.parametrize("rule", [{"say": "x"}, {"when": "a"}, {"when": "a", "sya": "x"}])
def test_rule_that_says_nothing_is_refused(tmp_path: Path, rule: dict[str, str]) -> None:
    """A script with a typing error would let a test pass for the wrong reason."""
    file = tmp_path / "rules.json"
    file.write_text(json.dumps([rule]), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "hearth.openai_api.scripted", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode != 0
    assert "validation error" in ended.stderr
