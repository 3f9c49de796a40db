"""Documents edited over HTTP and in the shell: kept, known at once, and never written blindly."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import announce, command

ZONES = """\
# Where it is what time.
id: zones
inputs: {zone: {type: text, default: UTC}}
steps:
  # the only step
  - {id: look, use: time.now, with: {zone: "{{ inputs.zone }}"}}
outputs: {zone: "{{ look.zone }}"}
"""
BERLIN = [{"op": "set", "path": "look.with.zone", "value": "Europe/Berlin"}]
LAYER = "kind: layer\nid: home\nof: zones\nabout: Here.\nset: {look.with.zone: Europe/Berlin}\n"


@pytest.mark.proves("004-25")
def test_edit_over_http_keeps_comments_and_is_known_at_once(house: House) -> None:
    """What the page saves is what the next run does; who looked before somebody else is told."""
    with house.client() as client:
        made = client.put("/api/workflows/zones/document", json={"document": ZONES})
        seen = {"if-match": made.headers["etag"]}
        looked = client.patch(
            "/api/workflows/zones", json={"operations": BERLIN, "look": True}, headers=seen
        )
        saved = client.patch("/api/workflows/zones", json={"operations": BERLIN}, headers=seen)
        late = client.patch("/api/workflows/zones", json={"operations": BERLIN}, headers=seen)
        blind = client.patch("/api/workflows/zones", json={"operations": BERLIN})
        run = client.post("/api/runs", json={"workflow": "zones"}).json()["run"]
        client.get(f"/api/runs/{run}/events").read()
        outputs = client.get(f"/api/runs/{run}").json()["outputs"]
        listed = [one["id"] for one in client.get("/api/workflows").json()["workflows"]]

    assert (made.status_code, looked.json()["saved"], saved.json()["saved"]) == (200, False, True)
    assert looked.json()["diff"] == saved.json()["diff"]
    kept = (house.state / "workflows" / "zones.yaml").read_text()
    assert kept == ZONES.replace("{{ inputs.zone }}", "Europe/Berlin") == saved.json()["document"]
    assert (late.status_code, late.json()["error"]["code"]) == (412, "document_changed")
    assert (blind.status_code, blind.json()["error"]["code"]) == (428, "if_match_missing")
    assert outputs == {"zone": "Europe/Berlin"}
    assert "zones" in listed


def test_no_edit_is_lost_to_one_of_the_same_moment(house: House) -> None:
    """Two pages save at once: what both were told is kept must be there."""

    def change(count: int) -> int:
        edits = [{"op": "set", "path": f"said.with.value.by{count}", "value": n} for n in range(20)]
        with house.client() as client:
            answer = client.patch(
                "/api/workflows/zones",
                json={"operations": edits},
                headers={"if-match": "*"},
            )
        return count if answer.status_code == 200 else 0

    free = "id: zones\nsteps:\n- {id: said, use: value, with: {value: {by: nobody}}}\n"
    with house.client() as client, ThreadPoolExecutor(4) as pool:
        client.put("/api/workflows/zones/document", json={"document": free})
        saved = {*pool.map(change, range(1, 5))} - {0}

    kept = (house.state / "workflows" / "zones.yaml").read_text()
    assert saved
    assert {count for count in range(1, 5) if f"by{count}:" in kept} == saved


def test_wrong_edit_is_told_and_not_kept(house: House) -> None:
    """The editor shows each mistake at its node, and what runs stays what it was."""
    wrong = [{"op": "set", "path": "look.use", "value": "time.new"}]
    with house.client() as client:
        seen = client.put("/api/workflows/zones/document", json={"document": ZONES}).headers["etag"]
        told = client.patch(
            "/api/workflows/zones", json={"operations": wrong}, headers={"if-match": seen}
        )
        nowhere = client.patch(
            "/api/workflows/zones",
            json={"operations": [{"op": "remove", "path": "loko"}]},
            headers={"if-match": seen},
        )
        other = client.put("/api/workflows/other/document", json={"document": ZONES})

    assert told.json()["saved"] is False
    said = told.json()["diagnostics"][0]
    assert (said["line"], said["mend"]) == (6, "Did you mean 'time.now'?")
    assert said["text"].startswith("time.new")
    assert (nowhere.status_code, nowhere.json()["error"]["code"]) == (422, "not_edited")
    assert other.json()["diagnostics"][0]["mend"] == "Write `id: other`"
    assert (house.state / "workflows" / "zones.yaml").read_text() == ZONES


def test_edited_copy_of_a_shipped_workflow_is_removed_again(house: House) -> None:
    """What comes with Hearth is never changed, and is back when a person's own is gone."""
    with house.client() as client:
        told = client.get("/api/workflows/summarize/document").json()
        edits = [{"op": "set", "path": ".about", "value": "Mine."}]
        saved = client.patch(
            "/api/workflows/summarize",
            json={"operations": edits},
            headers={"if-match": told["etag"]},
        ).json()
        about = client.get("/api/workflows/summarize").json()["about"]
        shipped = client.delete("/api/workflows/agent-turn/document", headers={"if-match": "*"})
        gone = client.delete("/api/workflows/summarize/document", headers={"if-match": "*"})
        back = client.get("/api/workflows/summarize/document").json()

    assert (told["kept"], saved["kept"], about) == (False, True, "Mine.")
    assert (gone.status_code, back) == (204, told)
    assert shipped.status_code == 412


def test_edit_stays_in_the_file_that_a_person_gave_another_name(empty_house: House) -> None:
    """A second file of the same id would lose the edit at the next start, to the older one."""
    (empty_house.state / "workflows").mkdir()
    (file := empty_house.state / "workflows" / "zzz.yaml").write_text(ZONES, encoding="utf-8")
    (empty_house.state / "layers").mkdir()
    (layer := empty_house.state / "layers" / "zzz.yaml").write_text(LAYER, encoding="utf-8")
    with empty_house.running(), empty_house.client() as client:
        client.patch(
            "/api/workflows/zones", json={"operations": BERLIN}, headers={"if-match": "*"}
        ).raise_for_status()
        client.put(
            "/api/layers/home",
            json={"document": LAYER.replace("Here", "There")},
            headers={"if-match": "*"},
        ).raise_for_status()
    with empty_house.running(), empty_house.client() as client:
        document = client.get("/api/workflows/zones/document").json()["document"]
        [card] = client.get("/api/layers").json()["layers"]

    assert "Europe/Berlin" in document
    assert card["about"] == "There."
    assert [file, layer] == sorted(empty_house.state.glob("*/zzz.yaml"), reverse=True)
    assert len([*empty_house.state.glob("workflows/*")]) == 1


@pytest.mark.parametrize(
    ("by_hand", "status"),
    [
        (None, 412),
        (b"steps: [", 422),
        (b"- just\n- a list\n", 422),
        (b"about: \xe9\n", 422),
    ],
)
def test_file_that_somebody_has_broken_by_hand_is_told(
    house: House, by_hand: bytes | None, status: int
) -> None:
    """An editor in another window must not make the page say that the service made a mistake."""
    operations = {"operations": BERLIN}
    with house.client() as client:
        client.put("/api/workflows/zones/document", json={"document": ZONES}).raise_for_status()
        file = house.state / "workflows" / "zones.yaml"
        if by_hand is None:
            file.unlink()
        else:
            file.write_bytes(by_hand)
        answer = client.patch("/api/workflows/zones", json=operations, headers={"if-match": "*"})

    assert answer.status_code == status
    assert str(file) in answer.json()["error"]["message"]


def test_documents_in_the_shell(
    empty_house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same without a browser, and without a running instance."""
    (file := tmp_path / "zones.yaml").write_text(ZONES)
    (layer := tmp_path / "home.yaml").write_text(LAYER)
    (torn := tmp_path / "torn.yaml").write_text(ZONES.replace("time.now", "time.new"))
    hearth = command(empty_house, monkeypatch)

    saved = hearth("workflows", "save", str(file))
    laid = hearth("layers", "save", str(layer))
    edited = hearth("workflows", "edit", "zones", "--set", ".about=Time.", "--dry-run")
    renamed = hearth("workflows", "edit", "zones", "--rename", "look=see", "--dry-run", "--json")
    shown = hearth("workflows", "show", "zones")
    diff = hearth("workflows", "diff", "zones", "zones", "--layer", "home", "--json")
    listed = hearth("workflows", "--json")
    layers = hearth("layers", "--json")
    valid = hearth("validate", "zones", str(file))
    wrong = hearth("validate", "zones", str(torn))
    tools = hearth("tools", "--json")

    assert (saved.exit_code, laid.exit_code, edited.exit_code) == (0, 0, 0)
    assert "+about: Time." in edited.stdout
    assert "{{ see." in json.loads(renamed.stdout)["document"]
    assert json.loads(renamed.stdout)["diagnostics"] == []
    assert shown.stdout == ZONES
    assert json.loads(diff.stdout)["changes"] == [
        {"path": "look.with.zone", "before": "{{ inputs.zone }}", "after": "Europe/Berlin"}
    ]
    assert "zones" in [one["id"] for one in json.loads(listed.stdout)["workflows"]]
    assert [(one["id"], one["of"]) for one in json.loads(layers.stdout)["layers"]] == [
        ("home", "zones")
    ]
    assert (valid.exit_code, wrong.exit_code) == (0, 2)
    assert (
        f"{torn}:6:21: there is no tool 'time.new'. Did you mean 'time.now'?\n    time.new, with"
        in wrong.stderr
    )
    names = {one["name"]: one for one in json.loads(tools.stdout)["tools"]}
    assert names["time.now"]["inputs"]["properties"]["zone"]["default"] == "local"


@pytest.mark.parametrize("place", ["instance", "state directory"])
def test_files_that_are_validated_together_know_each_other(
    place: str, empty_house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A folder of workflows that use and extend each other is checked before any is saved."""
    (base := tmp_path / "base.yaml").write_text(ZONES)
    (user := tmp_path / "user.yaml").write_text(
        "id: user\nsteps: [{id: zones, use: workflow/zones}]\n"
    )
    (other := tmp_path / "other.yaml").write_text("id: other\nextends: zones\nabout: Another.\n")
    hearth = command(empty_house, monkeypatch)
    with ExitStack() as stack:
        if place == "instance":
            stack.enter_context(empty_house.running())
            announce(empty_house)
        together = hearth("validate", str(user), str(other), str(base))
        alone = hearth("validate", str(user))

    assert (together.exit_code, together.stdout) == (0, "All is well.\n"), together.stderr
    assert alone.exit_code == 2
    assert "there is no 'workflow/zones'" in alone.stderr


def test_layers_over_http(house: House) -> None:
    """Kept, seen by the next plan, and gone when they are removed."""
    with house.client() as client:
        client.put("/api/workflows/zones/document", json={"document": ZONES})
        made = client.put("/api/layers/home", json={"document": LAYER})
        plan = {"workflow": "zones", "layers": ["home"]}
        planned = client.post("/api/plan", json=plan).json()
        again = client.put("/api/layers/home", json={"document": LAYER})
        listed = client.get("/api/layers").json()["layers"]
        client.delete("/api/layers/home", headers={"if-match": made.headers["etag"]})
        gone = client.get("/api/layers/home")

    assert "with zone: Europe/Berlin" in planned["text"]
    assert again.status_code == 428
    assert [(one["id"], one["about"]) for one in listed] == [("home", "Here.")]
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "layer_not_found")


def test_run_is_refused_the_effects_that_its_caller_does_not_grant(house: House) -> None:
    """A document of somebody else is tried without letting it do more than read."""
    with house.client() as client:
        body = {"workflow": "summarize", "inputs": {"text": "x"}, "allow": ["read"]}
        refused = client.post("/api/runs", json=body)

    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_granted")


def test_plan_shows_what_is_known_and_what_would_be_called(house: House) -> None:
    """Before a fork is started the page shows what it would ask again."""
    with house.client() as client:
        body = {"workflow": "summarize", "inputs": {"text": "Snow fell."}}
        run = client.post("/api/runs", json=body).json()["run"]
        client.get(f"/api/runs/{run}/events").read()
        known = client.post("/api/plan/cache", json={"workflow": "summarize", "run": run}).json()
        new = client.post("/api/plan/cache", json=body).json()
        schema = client.get("/api/plan/schema").json()

    assert {step["state"] for step in known["steps"]} == {"fresh"}
    assert {step["state"] for step in new["steps"]} == {"dirty"}
    assert schema["properties"]["steps"]["description"] == "Nodes that run in sequence."


def test_plan_in_the_shell_shows_the_cache(
    empty_house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The graph comes first, then each step with its state and the reason."""
    (file := tmp_path / "zones.yaml").write_text(ZONES)
    hearth = command(empty_house, monkeypatch)

    ran = json.loads(hearth("run", str(file), "--input", "zone=UTC", "--json").stdout)
    plain = hearth("plan", str(file), "--input", "zone=UTC")
    fork = hearth("plan", str(file), "--fork", ran["run"], "--json")
    anew = hearth("plan", str(file), "--fork", ran["run"], "--at", "look")

    assert plain.stdout.splitlines()[-2:] == [
        "cache:",
        "  look  dirty    what has the effect `read` is done in each run",
    ]
    assert json.loads(fork.stdout)["steps"] == [
        {"path": "look", "state": "fresh", "why": f"known from {ran['run']}"}
    ]
    assert anew.stdout.splitlines()[-1] == "  look  dirty    run again from look"


def test_runs_are_filtered_and_followed_in_the_shell(
    empty_house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Scripts find the runs they look for, and read what happened in one, event by event."""
    (file := tmp_path / "zones.yaml").write_text(ZONES)
    hearth = command(empty_house, monkeypatch)
    runs = [json.loads(hearth("run", str(file), "--json").stdout)["run"] for _ in range(2)]

    def listed(*options: str) -> list[str]:
        return [one["id"] for one in json.loads(hearth("runs", "--json", *options).stdout)["runs"]]

    found = hearth("runs", "events", runs[0], "--json")
    shown = hearth("runs", "events", runs[0])

    assert listed("--status", "done", "--workflow", "zones") == [runs[1], runs[0]]
    assert listed("--before", runs[1]) == [runs[0]]
    assert listed("--status", "failed") == []
    assert hearth("runs", "--status", "lost").exit_code == 2
    events = [json.loads(line)["type"] for line in found.stdout.splitlines()]
    assert events == ["run.started", "node.running", "node.done", "run.done"]
    assert [line.split()[2] for line in shown.stdout.splitlines()] == events
