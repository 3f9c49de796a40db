"""The first five minutes, and the last one: start, what is printed, status, stop."""

import json
import re
import stat
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.conftest import Instance
from tests.shown import Shown


@pytest.mark.proves("004-33")
def test_first_run_prints_all_that_a_user_needs(instance: Instance, shown: Shown) -> None:
    """A person who has just started it knows where to go and how to call it."""
    assert shown.take("README.md") == instance.started_with
    assert shown.take("docs/tutorial.md") == instance.started_with
    assert instance.web in instance.output
    assert instance.api in instance.output
    assert instance.key in instance.output
    assert instance.key.startswith("sk-hearth-")


def test_printed_curl_line_answers_as_it_stands(instance: Instance) -> None:
    """The line is there to be pasted, so it is pasted."""
    found = re.search(r"curl .*(?:\n\s+.*)*?\n(?=\S|\n|$)", instance.output)
    assert found, instance.output

    ended = instance.place.run("bash", "-c", found[0].replace("\\\n", " "))

    answer = json.loads(ended.stdout)
    assert answer["choices"][0]["message"]["content"], ended.stdout


def test_status_tells_every_service_for_people_and_for_programs(instance: Instance) -> None:
    """One command says whether the thing works."""
    table = instance.place.run("hearth", "status")
    status = json.loads(instance.place.run("hearth", "status", "--json").stdout)

    assert table.returncode == 0
    assert set(status) == {"web", "api", "key_file", "services"}
    assert status["api"] == instance.api
    for service in status["services"]:
        assert set(service) == {"name", "pid", "port", "healthy", "since", "detail"}
        assert service["healthy"], service
        assert service["name"] in table.stdout
    assert {s["name"] for s in status["services"]} == {
        "pipecatapp", "moe-gateway", "llama-expert-smollm2", "embeddings", "speech-stt",
        "speech-tts",
    }  # fmt: skip


def test_start_offers_a_better_model_that_fits(instance: Instance) -> None:
    """The embedded model shows that it works; the next step is said in one line."""
    line = next(line for line in instance.output.splitlines() if "hearth models pull" in line)
    name = re.search(r"hearth models pull (\S+?)[`.;,]?(?:\s|$)", line)
    listed = json.loads(instance.place.run("hearth", "models", "list", "--json").stdout)

    assert name
    assert name[1] in json.dumps(listed)


def test_second_start_is_refused_while_one_runs(instance: Instance) -> None:
    """Two supervisors on one state directory would tear it apart."""
    ended = instance.place.run("./bootstrap.sh", "--run-local")

    assert ended.returncode == 1
    assert instance.web in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.proves("002-31")
def test_secrets_stand_in_their_own_files_and_nowhere_else(instance: Instance) -> None:
    """Keys are given by reference: no document, prompt, run, log or command line holds one."""
    with instance.http() as http:
        body = {"workflow": "agent-turn", "inputs": {"text": "Hello.", "max_tokens": 16}}
        started = http.post("/api/runs", json=body)
        assert started.status_code == 201
        http.get(f"/api/runs/{started.json()['run']}/events").raise_for_status()  # to its end
    keys = {instance.place.state / "key", instance.place.state / "service_key"}
    everything = [instance.place.state, instance.place.checkout / "pipecatapp"]
    files = {file for root in everything for file in root.rglob("*") if file.is_file()} - keys
    processes = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout

    for secret in (instance.key, instance.service_key):
        small = [file for file in files if file.suffix != ".gguf"]
        assert [file for file in small if secret.encode() in content_of(file)] == []
        assert secret not in processes
    assert {stat.S_IMODE(file.stat().st_mode) for file in keys} == {0o600}


def content_of(file: Path) -> bytes:
    """Of a file; nothing of a temporary one that is gone already."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""
