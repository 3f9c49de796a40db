"""Drafts over HTTP: shared, kept on disk, saved with care, and refused with a way out."""

from typing import Any

import httpx2

from tests.integration.agent.conftest import House

TEXT = """\
# Where it is what time.
id: zones
steps:
  - {id: look, use: time.now, with: {zone: UTC}}   # here
outputs: {zone: "{{ look.zone }}"}
"""
BERLIN = {"op": "set", "path": "look.with.zone", "value": "Europe/Berlin"}
AT = "/api/drafts/zones"


def change(client: httpx2.Client, *operations: dict[str, Any], seen: str = "*") -> httpx2.Response:
    return client.patch(AT, json={"operations": operations}, headers={"if-match": seen})


def keep(client: httpx2.Client, text: str = TEXT) -> str:
    made = client.put(
        "/api/workflows/zones/document", json={"document": text}, headers={"if-match": "*"}
    )
    return str(made.headers["etag"])


def test_draft_is_kept_on_disk_and_saved_with_its_comments(house: House) -> None:
    """What a person has not saved yet is not lost, and nobody runs it before it is saved."""
    with house.client() as client:
        keep(client)
        change(client, BERLIN)
        unsaved = client.get("/api/workflows/zones/document").json()["document"]
        on_disk = (house.state / "drafts" / "zones.json").read_text()
        draft = client.get(AT).json()
        listed = client.get("/api/drafts").json()["drafts"]
        saved = client.post(f"{AT}/save", json={}, headers={"if-match": draft["etag"]}).json()
        after = client.get(AT).json()
        undone = client.post(f"{AT}/undo", headers={"if-match": after["etag"]}).json()

    assert unsaved == TEXT
    assert "Europe/Berlin" in on_disk
    assert (draft["dirty"], draft["undo"], listed) == (True, 1, [{"id": "zones", "stored": True}])
    assert saved["saved"]
    kept = (house.state / "workflows" / "zones.yaml").read_text()
    assert kept == TEXT.replace("UTC}}  ", "Europe/Berlin}}") == after["document"]
    assert not after["dirty"]
    assert (undone["document"], undone["dirty"], undone["redo"]) == (TEXT, True, 1)


def test_change_for_another_version_is_refused(house: House) -> None:
    """Of two windows the second is told, and what the first did stays."""
    with house.client() as client:
        seen = keep(client)
        first = change(client, BERLIN, seen=seen)
        late = change(client, {"op": "remove", "path": "look"}, seen=seen)
        blind = client.patch(AT, json={"operations": [BERLIN]})
        undo = client.post(f"{AT}/undo", headers={"if-match": seen})
        nothing = client.post(f"{AT}/redo", headers={"if-match": first.headers["etag"]})

    assert (late.status_code, late.json()["error"]["code"]) == (412, "document_changed")
    assert (blind.status_code, undo.status_code) == (428, 412)
    assert (nothing.status_code, nothing.json()["error"]["code"]) == (409, "nothing_to_undo")


def test_draft_does_not_replace_a_version_that_was_saved_meanwhile(house: House) -> None:
    """A draft without changes follows the file; one with changes says so before it is saved."""
    newer = TEXT.replace("UTC", "Asia/Tokyo")
    with house.client() as client:
        keep(client)
        change(client, BERLIN)
        client.post(f"{AT}/undo", headers={"if-match": "*"})
        keep(client, newer)
        followed = client.get(AT).json()
        change(client, BERLIN)
        keep(client, TEXT)
        outdated = client.get(AT).json()
        save = {"if-match": outdated["etag"]}
        refused = client.post(f"{AT}/save", json={}, headers=save)
        diff = client.post(f"{AT}/save", json={"look": True}, headers=save).json()["diff"]
        forced = client.post(f"{AT}/save", json={"force": True}, headers=save)

    assert (followed["document"], followed["dirty"], followed["outdated"]) == (newer, False, False)
    assert outdated["outdated"]
    assert refused.status_code == 412
    assert "UTC" in diff
    assert forced.json()["saved"]


def test_new_workflow_is_built_by_operations_and_may_be_wrong_meanwhile(house: House) -> None:
    """A draft shows its nodes and wires, with each error at its node and field."""
    with house.client() as client:
        made = client.put(AT, json={})
        again = client.put(AT, json={})
        added = change(client, {"op": "add", "node": {"id": "a", "use": "values"}}).json()
        unsaved = client.post(f"{AT}/save", json={}, headers={"if-match": "*"}).json()
        broken = client.put(
            AT, json={"document": "id: [\n"}, headers={"if-match": added["etag"]}
        ).json()
        refused = change(client, {"op": "remove", "path": "a"})
        client.request("DELETE", AT, headers={"if-match": "*"})
        gone = client.get(AT)

    assert (made.status_code, made.json()["stored"]) == (200, False)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "draft_exists")
    assert [node["path"] for node in added["graph"]["nodes"]] == [":inputs", "a", ":outputs"]
    assert [(one["node"], one["field"]) for one in added["diagnostics"]] == [("a", "use")]
    assert not unsaved["saved"]
    assert (broken["graph"], broken["diagnostics"][0]["line"]) == (None, 2)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_document")
    assert gone.status_code == 404
