"""Forks of runs over HTTP and in the shell."""

import json
from pathlib import Path

from tests.integration.agent.conftest import House, follow
from tests.integration.agent.test_cli import Hearth, hearth
from tests.integration.agent.test_runs import DRAFTS

__all__ = ["hearth"]

EDITED = DRAFTS.replace('text: "two', 'text: "three')


def test_edited_fork_over_http_asks_only_what_changed(house: House) -> None:
    """A mended prompt costs one question to a model, not all of them."""
    with house.client() as client:
        body = {"document": DRAFTS, "inputs": {"topic": "snow"}}
        run = client.post("/api/runs", json=body).json()["run"]
        with client.stream("GET", f"/api/runs/{run}/events") as answer:
            follow(answer)
        asked = len(house.model.requests)
        forked = client.post(f"/api/runs/{run}/fork", json={"document": EDITED})
        again = forked.json()["run"]
        with client.stream("GET", f"/api/runs/{again}/events") as answer:
            follow(answer)
        view = client.get(f"/api/runs/{again}").json()
        missing = client.post(f"/api/runs/{run}/fork", json={"at": "nowhere"})

    assert forked.status_code == 201
    assert view["outputs"] == {"both": "one snow | three snow"}
    assert view["forked"] == run
    assert len(house.model.requests) == asked + 1
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "step_not_found")


def test_fork_in_the_shell(hearth: Hearth, tmp_path: Path) -> None:
    """From a file that was edited, from a step on, or with another input."""
    file = tmp_path / "drafts.yaml"
    file.write_text(DRAFTS)
    run = json.loads(hearth("run", str(file), "-i", "topic=snow", "--json").stdout)["run"]
    file.write_text(EDITED)

    edited = json.loads(hearth("runs", "fork", run, "--with", str(file), "--json").stdout)
    at = json.loads(hearth("runs", "fork", run, "--at", "one", "--json").stdout)
    other = hearth("runs", "fork", run, "--with", str(file), "-i", "topic=ice")
    wrong = hearth("runs", "fork", run, "--at", "nowhere")

    assert edited["outputs"] == {"both": "one snow | three snow"}
    assert at["outputs"] == {"both": "one snow | two snow"}
    assert '"one ice | three ice"' in other.stdout
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "has no step 'nowhere'" in wrong.stderr


def test_reasons_and_pins_in_the_shell(hearth: Hearth, tmp_path: Path) -> None:
    """A person sees why a step ran, and can let an output stand for the runs to come."""
    file = tmp_path / "drafts.yaml"
    file.write_text(DRAFTS)
    run = json.loads(hearth("run", str(file), "-i", "topic=snow", "--json").stdout)["run"]
    file.write_text(EDITED)
    edited = json.loads(hearth("runs", "fork", run, "--with", str(file), "--json").stdout)["run"]

    shown = hearth("runs", "show", edited)
    (layer := tmp_path / "pin.yaml").write_text(hearth("runs", "pin", run, "two").stdout)
    pinned = hearth("run", str(file), "-i", "topic=ice", "--layer", str(layer))
    wrong = hearth("runs", "pin", run, "three")

    assert f"known from {run}" in shown.stdout
    assert "changed: input messages" in shown.stdout
    assert '"one ice | two snow"' in pinned.stdout
    assert wrong.exit_code == 1
