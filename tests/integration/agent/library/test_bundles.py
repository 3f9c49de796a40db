"""Workflows from one home to another, in a signed file."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.integration.agent.conftest import House, ScriptedGateway
from tests.integration.agent.library.test_schedules import done, kept
from tests.integration.agent.test_cli import announce, command

PROJECT = """
kind: project
id: kitchen
vision: Warm bread every day.
secrets: {forge: "kept:forge"}
"""
PROMPT = "---\ntags: [baking]\n---\nYou bake bread.\n"
BASE = """
id: greet
inputs: {who: text}
steps: [{id: said, use: value, with: {value: "Good day, {{ inputs.who }}"}}]
outputs: {said: "{{ said.value }}"}
"""
LOUD = """
# Loud for the kitchen.
id: greet-loudly
extends: greet
project: kitchen
about: Greets so that everybody hears it.
set:
  said.with.value: "GOOD DAY, {{ inputs.who | upper }}! {{ project.vision }}"
"""
CHEF = """
id: chef
inputs: {who: text}
steps:
  - {id: hello, use: workflow/greet-loudly, with: {who: "{{ inputs.who }}"}}
  - {id: bread, use: llm, prompt: [baking], with: {text: "Bake."}}
outputs: {said: "{{ hello.said }}"}
"""
ALL = {"project/kitchen", "prompt/bread", "workflow/greet", "workflow/greet-loudly"}


@pytest.fixture
def sender(empty_house: House) -> House:
    """A house with workflows that extend and use each other, a prompt and a project."""
    kept(empty_house, BASE, LOUD.replace("# Loud for the kitchen.\n", ""), CHEF)
    (empty_house.state / "workflows" / "greet-loudly.yaml").write_text(LOUD, encoding="utf-8")
    for folder, name, text in (
        ("projects", "kitchen.yaml", PROJECT),
        ("prompts", "bread.md", PROMPT),
    ):
        (empty_house.state / folder).mkdir()
        (empty_house.state / folder / name).write_text(text, encoding="utf-8")
    (empty_house.state / "secrets").mkdir()
    (empty_house.state / "secrets" / "forge").write_text("hunter2", encoding="utf-8")
    return empty_house


@pytest.fixture
def bundle(sender: House) -> bytes:
    """The bundle of the workflow that needs all the others."""
    with sender.running(), sender.client() as client:
        return client.get("/api/bundles", params={"document": "chef"}).raise_for_status().content


@pytest.fixture
def receiver(tmp_path: Path, serve: Callable[..., str]) -> House:
    """Another house, without documents."""
    model = ScriptedGateway()
    house = House(tmp_path / "receiver", model, serve(model.app))
    house.state.mkdir()
    (house.state / "key").write_text(house.key, encoding="utf-8")
    (house.state / "service_key").write_text("sk-hearth-services", encoding="utf-8")
    return house


@contextmanager
def opened(house: House) -> Iterator[httpx2.Client]:
    with house.running(), house.client() as client:
        yield client


def preview(client: httpx2.Client, bundle: bytes) -> dict[str, Any]:
    found: dict[str, Any] = (
        client.post("/api/bundles/preview", content=bundle).raise_for_status().json()
    )
    return found


def states(shown: dict[str, Any]) -> dict[str, str]:
    return {f"{one['kind']}/{one['id']}": one["state"] for one in shown["documents"]}


@pytest.mark.proves("003-15")
def test_bundle_brings_a_workflow_with_all_that_it_needs(bundle: bytes, receiver: House) -> None:
    """It runs in the other home as it did at first, its comments are kept, and no secret left."""
    assert b"hunter2" not in bundle
    with opened(receiver) as client:
        shown = preview(client, bundle)
        assert states(shown) == dict.fromkeys({*ALL, "workflow/chef"}, "new")
        assert [one["problems"] for one in shown["documents"]] == [[]] * 5
        assert not shown["trusted"]
        refused = client.post("/api/bundles", content=bundle)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_trusted")
        assert client.get("/api/workflows/chef").status_code == 404

        trust = {"trust": shown["fingerprint"]}
        taken = client.post("/api/bundles", content=bundle, params=trust).raise_for_status()
        assert set(taken.json()["stored"]) == {*ALL, "workflow/chef"}
        body = {"workflow": "greet-loudly", "inputs": {"who": "anna"}}
        run = done(client, client.post("/api/runs", json=body).json()["run"])
        assert run["outputs"] == {"said": "GOOD DAY, ANNA! Warm bread every day."}
        assert preview(client, bundle)["trusted"]
        assert set(states(preview(client, bundle)).values()) == {"same"}
    assert (receiver.state / "workflows" / "greet-loudly.yaml").read_text() == LOUD
    with opened(receiver) as client:
        assert client.get("/api/workflows/chef").status_code == 200


def test_nothing_is_replaced_without_being_named(bundle: bytes, receiver: House) -> None:
    """What a person has changed here is worth more than what arrives."""
    own = BASE.replace("Good day", "Hello")
    kept(receiver, own)
    with opened(receiver) as client:
        shown = preview(client, bundle)
        assert states(shown)["workflow/greet"] == "changed"
        (changed,) = (one for one in shown["documents"] if one["id"] == "greet")
        assert '-steps: [{id: said, use: value, with: {value: "Hello' in changed["diff"]
        trust = {"trust": shown["fingerprint"]}
        taken = client.post("/api/bundles", content=bundle, params=trust).json()
        assert taken["kept"] == ["workflow/greet"]
        file = receiver.state / "workflows" / "greet.yaml"
        assert file.read_text() == own
        replace = {"replace": "workflow/greet"}
        taken = client.post("/api/bundles", content=bundle, params=replace).json()
        assert taken["stored"] == ["workflow/greet"]
        assert file.read_text() == BASE


def packed(files: dict[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in files.items():
            opened.writestr(name, data)
    return archive.getvalue()


def test_changed_and_damaged_bundles_are_refused(bundle: bytes, receiver: House) -> None:
    """A file from elsewhere may be anything; each refusal is one sentence and stores nothing."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as opened_bundle:
        files = {name: opened_bundle.read(name) for name in opened_bundle.namelist()}
    manifest = json.loads(files["manifest.json"])
    elsewhere = json.dumps(manifest).replace('"chef"', '"../chef"').encode()
    greet = "workflows/greet.yaml"
    bundles = {
        "not a bundle": b"id: chef\n",
        "damaged": bundle[: len(bundle) // 2],
        "greet was changed after": packed({**files, greet: b"id: greet\n"}),
        "was changed after it was signed": packed({**files, "manifest.json": elsewhere}),
        "no readable workflows/greet": packed({k: v for k, v in files.items() if k != greet}),
        "no readable signature": packed({"manifest.json": files["manifest.json"]}),
        "no valid signature": packed({**files, "signature.json": b'{"key": "x"}'}),
        "is larger than": packed({**files, greet: b" " * (2 << 20)}),
    }
    with opened(receiver) as client:
        for message, content in bundles.items():
            for path in ("/api/bundles/preview", "/api/bundles"):
                answer = client.post(path, content=content)
                assert answer.status_code == 422
                assert message in answer.json()["error"]["message"]
        assert client.post("/api/bundles", content=b"x" * (17 << 20)).status_code == 413
    assert not (receiver.state / "workflows").exists()


def test_workflow_that_cannot_run_here_is_refused_with_its_place(
    sender: House, receiver: House
) -> None:
    """A tool that only the other home has is named before anything is stored."""
    kept(sender, "id: far\nsteps: [{id: call, use: far.away}]\n")
    (sender.state / "tools").mkdir()
    (sender.state / "tools" / "far.py").write_text(
        "from pipecatapp.workflow import Context, tool\n"
        "from tests.support.order_tool import Order\n\n"
        '@tool("far.away", effect="pure")\n'
        "async def away(ctx: Context) -> Order:\n"
        '    """Do something far away."""\n'
        '    return Order(text="")\n',
        encoding="utf-8",
    )
    with opened(sender) as client:
        params = {"document": ["far", "greet"]}
        bundle = client.get("/api/bundles", params=params).raise_for_status().content
        missing = client.get("/api/bundles", params={"document": "prompt/none"})
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "document_not_found")
    with opened(receiver) as client:
        trust = {"trust": preview(client, bundle)["fingerprint"]}
        answer = client.post("/api/bundles", content=bundle, params=trust)
        assert answer.json()["error"]["code"] == "not_usable"
        assert "workflows/far.yaml:2" in answer.json()["error"]["message"]
        assert not preview(client, bundle)["trusted"]
        assert client.get("/api/workflows/greet").status_code == 404


def test_commands_write_show_and_take_a_bundle(
    sender: House, receiver: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell says who signed it and what is left to decide."""
    file = str(tmp_path / "chef.hearth")
    with sender.running():
        announce(sender)
        written = command(sender, monkeypatch)("bundles", "export", "chef", "-o", file)
        assert written.exit_code == 0, written.output
    fingerprint = written.output.rpartition(": ")[2].strip()
    with receiver.running():
        announce(receiver)
        hearth = command(receiver, monkeypatch)
        shown = hearth("bundles", "show", file).output
        assert f"Signed by {fingerprint} (not trusted)" in shown
        assert hearth("bundles", "import", file).exit_code != 0
        taken = hearth("bundles", "import", file, "--trust", fingerprint)
        assert "workflow/chef" in taken.output
        assert "cannot be read" in hearth("bundles", "show", file + "x").output
