"""Workflows that start by a webhook or a file, in a real agent service."""

import base64
import hmac
import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pipecatapp.application.triggers import folders
from tests.integration.agent.conftest import House
from tests.integration.agent.library.test_schedules import done, eventually, kept, runs_of
from tests.integration.agent.test_cli import announce, command

RING = """
id: ring
inputs: {who: text, doors: {type: integer, default: 1}}
steps:
  - {id: checked, if: "{{ inputs.who == 'nobody' }}", use: time.now, with: {zone: Nowhere}}
  - {id: said, use: value, with: {value: "{{ inputs.who }} at door {{ inputs.doors }}"}}
outputs: {said: "{{ said.value }}"}
"""
SCAN = """
id: scan
inputs: {name: text}
steps: [{id: read, use: file.read, with: {path: "{{ inputs.name }}"}}]
outputs: {text: "{{ read.text }}"}
"""
WEBHOOK = {
    "workflow": "ring",
    "webhook": {},
    "inputs": {"who": "{{ body.person }}", "doors": "{{ body.doors | default(1) }}"},
}


def put(client: httpx2.Client, id: str, settings: dict[str, Any]) -> dict[str, Any]:
    answer = client.put(f"/api/triggers/{id}", json=settings)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


def trigger(client: httpx2.Client, id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/api/triggers/{id}").json()
    return found


def sent(house: House, secret: str, body: object, *, id: str = "1") -> httpx2.Response:
    """A delivery to the trigger `door` that is signed as Standard Webhooks says, without a key."""
    text, now = json.dumps(body).encode(), int(time.time())
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = hmac.digest(key, f"{id}.{now}.".encode() + text, "sha256")
    headers = {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": str(now),
        "webhook-signature": "v1," + base64.b64encode(signed).decode(),
    }
    with httpx2.Client(base_url=house.address, trust_env=False) as client:
        return client.post("/hooks/door", content=text, headers=headers)


@pytest.fixture
def ring(empty_house: House) -> House:
    """A house with the workflows of this module, not started."""
    kept(empty_house, RING, SCAN)
    return empty_house


def test_signed_delivery_starts_one_run_with_its_inputs(ring: House) -> None:
    """A sender repeats what it believes to be lost: the bell rings once all the same, also when
    the service was started again in between.
    """
    with ring.running(), ring.client() as client:
        secret = put(client, "door", WEBHOOK)["secret"]
        first = sent(ring, secret, {"person": "Anna", "doors": 2})
        assert (first.status_code, first.json()["repeated"]) == (202, False)
        assert done(client, first.json()["run"])["outputs"] == {"said": "Anna at door 2"}
        assert trigger(client, "door")["status"] == "done"
        assert secret not in json.dumps(trigger(client, "door"))
    with ring.running(), ring.client() as client:
        again = sent(ring, secret, {"person": "Anna", "doors": 2})
        assert (again.status_code, again.json()["run"]) == (200, first.json()["run"])
        sent(ring, secret, {"person": "Ben"}, id="2").raise_for_status()
        assert len(runs_of(client, "ring")) == 2
        assert runs_of(client, "ring")[0]["caller"] == "trigger/door"


def test_delivery_whose_run_failed_may_come_again(ring: House) -> None:
    """Senders repeat after a failure, and then the cause may be gone."""
    with ring.running(), ring.client() as client:
        secret = put(client, "door", WEBHOOK)["secret"]
        first = sent(ring, secret, {"person": "nobody"}).json()["run"]
        assert done(client, first)["status"] == "failed"
        second = sent(ring, secret, {"person": "nobody"})
        assert (second.status_code, second.json()["run"] != first) == (202, True)


def test_refused_deliveries_say_why_and_start_nothing(ring: House) -> None:
    """Each message tells the sender, or the person who set it up, what to change."""
    with ring.running(), ring.client() as client:
        secret = put(client, "door", WEBHOOK | {"per_minute": 1})["secret"]
        wrong = sent(ring, "whsec_" + base64.b64encode(b"wrong").decode(), {"person": "Eve"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "not_signed")
        lacking = sent(ring, secret, {"name": "Anna"})
        assert (lacking.status_code, lacking.json()["error"]["code"]) == (422, "invalid_inputs")
        assert "body.person" in trigger(client, "door")["error"]
        typed = sent(ring, secret, {"person": "Anna", "doors": "many"})
        assert "doors" in typed.json()["error"]["message"]
        large = sent(ring, secret, {"person": "x" * (1 << 20)})
        assert large.status_code == 413
        client.post("/api/triggers/door/pause").raise_for_status()
        assert sent(ring, secret, {"person": "Anna"}).status_code == 404
        assert runs_of(client, "ring") == []

        client.post("/api/triggers/door/resume").raise_for_status()
        assert sent(ring, secret, {"person": "Anna"}).status_code == 202
        limited = sent(ring, secret, {"person": "Ben"}, id="2")
        assert (limited.status_code, limited.json()["error"]["code"]) == (
            429,
            "too_many_deliveries",
        )
        assert 0 < int(limited.headers["retry-after"]) <= 60
        client.delete("/api/triggers/door").raise_for_status()
        assert sent(ring, secret, {"person": "Anna"}).status_code == 404
        assert client.get("/api/triggers").json() == {"triggers": []}


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"workflow": "ring", "webhook": {}}, "'who' of ring has no value"),
    (WEBHOOK | {"inputs": {"who": "x", "why": "y"}}, "no input 'why'"),
    (WEBHOOK | {"inputs": {"who": "{{ content.person }}"}}, "'content' is not known here"),
    (WEBHOOK | {"inputs": {"who": "{{ body. }}"}}, "inputs.who"),
    (WEBHOOK | {"workflow": "rings"}, "rings"),
    (WEBHOOK | {"webhook": {"secret": "hunter2"}}, "not the secret itself"),
    (WEBHOOK | {"folder": {"path": "/tmp"}}, "either `webhook` or `folder`"),
    ({"workflow": "scan", "folder": {"path": "scans"}}, "absolute path"),
    (
        {"workflow": "scan", "folder": {"path": "/no/such"}, "inputs": {"name": "x"}},
        "/no/such is not a folder",
    ),
]


def test_trigger_that_could_never_start_a_run_is_not_stored(ring: House) -> None:
    """The mistake is told when it is made, not at the first delivery."""
    with ring.running(), ring.client() as client:
        for settings, message in MISTAKES:
            answer = client.put("/api/triggers/door", json=settings)
            assert answer.status_code in (400, 404, 422)
            assert message in answer.json()["error"]["message"]
        assert client.get("/api/triggers").json() == {"triggers": []}


def test_each_new_file_of_a_folder_is_given_to_a_run(
    ring: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scanner writes into a folder; what was there before, hidden files, other names and links
    start nothing, and neither does a restart.
    """
    monkeypatch.setattr(folders, "PERIOD", 0.1)
    folder = tmp_path / "scans"
    folder.mkdir()
    (folder / "old.txt").write_text("old", encoding="utf-8")
    (folder / ".part.txt").write_text("half", encoding="utf-8")
    (folder / "picture.png").write_bytes(b"png")
    (folder / "link.txt").symlink_to("/etc/hostname")
    with ring.running(), ring.client() as client:
        announce(ring)
        hearth = command(ring, monkeypatch)
        words = ("triggers", "folder", "scans", "scan", str(folder), "--pattern", "*.txt")
        added = hearth(*words, "--input", "name={{ file.name }}")
        assert added.exit_code == 0, added.output
        time.sleep(0.01)  # the clock of the file system is coarser than ours
        (folder / "new.txt").write_text("a receipt", encoding="utf-8")
        (folder / "link.txt").unlink()
        (folder / "link.txt").symlink_to("/etc/hostname")
        eventually(lambda: trigger(client, "scans")["status"] == "done" or None)
        assert client.get(f"/api/runs/{trigger(client, 'scans')['run']}").json()["outputs"] == {
            "text": "a receipt"
        }
    with ring.running(), ring.client() as client:
        (folder / "new.txt").write_text("a longer receipt", encoding="utf-8")
        eventually(lambda: len(runs_of(client, "scan")) == 2 or None)
        texts = [done(client, run["id"])["outputs"]["text"] for run in runs_of(client, "scan")]
        assert texts == ["a longer receipt", "a receipt"]
        folder.rename(tmp_path / "gone")
        eventually(lambda: "cannot be read" in (trigger(client, "scans")["error"] or "") or None)


def test_file_that_is_not_valid_is_shown_with_the_reason(house: House) -> None:
    """People edit the files of triggers; one mistake leaves the other triggers alone."""
    (house.state / "triggers").mkdir()
    (house.state / "triggers" / "broken.yaml").write_text("workflow: [", encoding="utf-8")
    (house.state / "triggers" / "odd.yaml").write_text("workflow: ring", encoding="utf-8")
    with house.client() as client:
        found = client.get("/api/triggers").json()["triggers"]
        assert [one["id"] for one in found] == ["broken", "odd"]
        assert "cannot be read" in found[0]["error"]
        assert "either `webhook` or `folder`" in found[1]["error"]
        assert client.post("/hooks/broken", content=b"{}").status_code == 404
