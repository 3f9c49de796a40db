"""Files for a run, and the files that it makes: uploaded, listed, downloaded, and gone with it."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from pipecatapp.workspace import uploads
from tests.integration.agent.conftest import House
from tests.integration.agent.test_owners import behalf
from tests.integration.agent.test_run_actions import end

DOCUMENT = """id: copy
inputs: {source: text}
steps:
  - {id: before, use: file.read, with: {path: "{{ inputs.source }}", encoding: base64}}
  - id: after
    use: file.write
    with: {path: out/copy.png, text: "{{ before.text }}", encoding: base64}
  - {id: page, use: file.write, with: {path: out/page.html, text: "<script>alert(1)</script>"}}
outputs: {text: "{{ after.path }}"}
"""
DATA = bytes(range(256)) * 3
NAME = "Fotos/Küche 1.png"


@pytest.fixture
def client(house: House) -> Iterator[httpx2.Client]:
    """Calls the agent service with the key of people."""
    with house.client() as client:
        yield client


def upload(client: httpx2.Client, data: bytes) -> str:
    return str(client.post("/api/files", content=data).raise_for_status().json()["id"])


def started(client: httpx2.Client, files: dict[str, str], **more: Any) -> httpx2.Response:
    body = {"document": DOCUMENT, "inputs": {"source": NAME}, "files": files, **more}
    return client.post("/api/runs", json=body)


def ended(client: httpx2.Client, answer: httpx2.Response) -> str:
    name = str(answer.raise_for_status().json()["run"])
    end(client, name)
    assert client.get(f"/api/runs/{name}").json()["status"] == "done"
    return name


def listed(client: httpx2.Client, run: str, **query: Any) -> dict[str, Any]:
    answer = client.get(f"/api/runs/{run}/files", params=query).raise_for_status().json()
    assert answer["kept"] is True
    return {file["path"]: (file["size"], file["type"], file["changed"]) for file in answer["files"]}


def test_run_reads_a_given_file_and_what_it_makes_is_downloaded(client: httpx2.Client) -> None:
    """A person gives a photo and takes the result; what may contain a program is never shown at
    our own address.
    """
    run = ended(client, started(client, {NAME: upload(client, DATA)}))
    made = {
        "out/copy.png": (len(DATA), "image/png", True),
        "out/page.html": (25, "text/html", True),
    }
    picture = client.get(f"/api/runs/{run}/files/out/copy.png")
    page = client.get(f"/api/runs/{run}/files/out/page.html")

    assert listed(client, run) == made
    assert listed(client, run, all=True) == {**made, NAME: (len(DATA), "image/png", False)}
    assert listed(client, run, step="after") == {"out/copy.png": made["out/copy.png"]}
    assert (picture.content, picture.headers["content-type"]) == (DATA, "image/png")
    assert picture.headers["content-disposition"] == "inline; filename*=UTF-8''copy.png"
    assert page.headers["content-disposition"].startswith("attachment;")
    assert client.get(f"/api/runs/{run}/files/{NAME}").content == DATA


def test_file_of_another_key_is_not_there(client: httpx2.Client) -> None:
    """Files are as private as the run that they belong to."""
    run = ended(client, started(client, {NAME: upload(client, DATA)}))
    for path in (f"/api/runs/{run}/files", f"/api/runs/{run}/files/out/copy.png"):
        assert client.get(path, headers=behalf("ada")).status_code == 404
        assert httpx2.get(f"{client.base_url}{path}").status_code == 401
    assert httpx2.post(f"{client.base_url}/api/files", content=DATA).status_code == 401


def test_run_again_and_an_edited_fork_have_the_given_files(client: httpx2.Client) -> None:
    """Also after the first run is deleted: each run keeps what it was given."""
    first = ended(client, started(client, {NAME: upload(client, DATA)}))
    edited = DOCUMENT.replace("out/copy.png", "out/other.png")
    fork = client.post(f"/api/runs/{first}/fork", json={"document": edited})
    forked = ended(client, fork)
    again = ended(client, client.post(f"/api/runs/{first}/again"))
    client.delete(f"/api/runs/{first}").raise_for_status()
    last = ended(client, client.post(f"/api/runs/{again}/again"))

    assert "out/other.png" in listed(client, forked)
    assert client.get(f"/api/runs/{last}/files/{NAME}").content == DATA
    assert client.get(f"/api/runs/{first}/files").status_code == 404


def test_given_files_are_removed_with_the_last_run_that_had_them(
    client: httpx2.Client, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleting is a matter of privacy: nothing of the file stays on the disk."""
    monkeypatch.setattr(uploads, "UNUSED_FOR", "now")
    id = upload(client, DATA)
    first = ended(client, started(client, {NAME: id}))
    second = ended(client, started(client, {NAME: id}))
    blob = house.state / "uploads" / "git" / "objects" / id[:2] / id[2:]
    client.delete(f"/api/runs/{first}").raise_for_status()
    assert blob.is_file()
    client.delete(f"/api/runs/{second}").raise_for_status()
    assert not blob.exists()
    assert list((house.state / "workspaces").iterdir()) == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"../key": ""}, "is not a valid path"),
        ({"/etc/passwd": ""}, "is not a valid path"),
        ({"a/.GIT/config": ""}, "is not a valid path"),
        ({"a//b": ""}, "is not a valid path"),
        ({"": ""}, "is not a valid path"),
        ({"a\nb": ""}, "is not a valid path"),
        ({"x" * 256: ""}, "is not a valid path"),
        ({"a": "", "a/b": ""}, "'a' cannot be a file and the folder of 'a/b'"),
        ({"a": "nosuch"}, "'nosuch' is not the id of an upload"),
        ({"a": "0" * 40}, "There is no upload"),
    ],
)
def test_wrong_file_is_refused_before_the_run(
    client: httpx2.Client, files: dict[str, str], message: str
) -> None:
    """A path that leaves the workspace, or an upload that is gone, is told at once."""
    id = upload(client, b"x")
    answer = started(client, {path: given or id for path, given in files.items()})
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"] == "not_uploaded"
    assert message in answer.json()["error"]["message"]
    assert client.get("/api/runs").json()["runs"] == []


def test_workflow_with_a_repository_takes_no_files(client: httpx2.Client) -> None:
    """Its files are those of the repository; a file that vanished silently would be a riddle."""
    own = f"workspace: {{repo: /nowhere}}\n{DOCUMENT}"
    answer = started(client, {NAME: upload(client, DATA)}, document=own)
    assert answer.status_code == 422
    assert "takes its files from a repository" in answer.json()["error"]["message"]


def test_run_that_saw_no_files_has_none(client: httpx2.Client) -> None:
    """Asking creates no workspace, and a file that is not there is told with where to look."""
    plain = 'id: plain\nsteps: [{id: now, use: time.now}]\noutputs: {text: "{{ now.time }}"}\n'
    run = ended(client, client.post("/api/runs", json={"document": plain}))
    missing = client.get(f"/api/runs/{run}/files/a.txt")
    assert listed(client, run) == {}
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "file_not_found")
    assert client.get("/api/runs/nosuch/files").status_code == 404


def test_large_file_is_stored_as_it_arrives_and_a_larger_one_is_refused(
    client: httpx2.Client, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scanned book is larger than the limit of other requests; the limit of files is told."""
    big = bytes(9 * 2**20)
    run = ended(client, started(client, {NAME: upload(client, big)}))
    assert client.get(f"/api/runs/{run}/files/{NAME}").content == big
    monkeypatch.setattr(uploads, "LARGEST", 2**20)
    refused = client.post("/api/files", content=big)
    assert refused.status_code == 422
    assert refused.json()["error"]["message"] == "A file may have 1 MiB at most."
    assert [path.name for path in (house.state / "uploads").iterdir()] == ["git"]
