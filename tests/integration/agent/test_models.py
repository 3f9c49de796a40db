"""`/api/models`: the catalogue on the page, with downloads, use and removal."""

import hashlib
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.types import ASGIApp

from tests.integration.agent.conftest import House
from tests.integration.gateway.conftest import wait_until
from tests.integration.gateway.consul import running
from tests.integration.models.conftest import CONTENT
from tests.integration.models.held import HeldHub

Json = dict[str, Any]
Serve = Callable[[ASGIApp], str]


@pytest.fixture
def hub(serve: Serve, empty_house: House, tmp_path: Path) -> HeldHub:
    """A hub with the file of `tiny`, in a catalogue of three chat models."""
    hub = HeldHub(CONTENT)
    url = f"{serve(hub)}/tiny.gguf"
    catalogue = tmp_path / "models.yaml"
    write_catalogue(catalogue, url)
    empty_house.more = {"catalogue": str(catalogue)}
    return hub


@pytest.fixture
def client(empty_house: House, hub: HeldHub) -> Iterator[httpx2.Client]:
    with empty_house.running(), empty_house.client() as client:
        yield client


def write_catalogue(path: Path, url: str, **fields: Any) -> None:
    """`smollm2`, which every expert ends with, `tiny` from a hub, and one that fits no machine."""
    entry = {
        "about": "A model for tests.", "file": "tiny.gguf", "license": "Apache-2.0",
        "sha256": hashlib.sha256(CONTENT).hexdigest(), "size_bytes": len(CONTENT),
        "parameters": "1M", "context": 512, "chat_template": "embedded", "tools": "none",
        "ram_bytes": 1_000_000, "origin": "https://example.org/tiny",
        "source": {"kind": "url", "url": url},
    }  # fmt: skip
    models = {
        "smollm2": entry,
        "tiny": {**entry, "parameters": "2M", **fields},
        "giant": {**entry, "parameters": "9B", "ram_bytes": 10**18},
    }
    path.write_text(json.dumps({"models": models}), encoding="utf-8")


def model(client: httpx2.Client, name: str = "tiny") -> Json:
    models = client.get("/api/models").raise_for_status().json()["models"]
    return next(one for one in models if one["name"] == name)


def settled(client: httpx2.Client, name: str = "tiny") -> Json:
    """The model when nothing is downloaded any more."""
    wait_until(lambda: (model(client, name)["pull"] or {}).get("state") != "running")
    return model(client, name)


def test_catalogue_tells_what_fits_and_what_to_get(client: httpx2.Client) -> None:
    """The first visit decides what to download: nobody compares bytes of memory by hand."""
    listed = client.get("/api/models").json()

    assert {one["name"]: one["fits"] for one in listed["models"]} == {
        "smollm2": True, "tiny": True, "giant": False,
    }  # fmt: skip
    assert [one["name"] for one in listed["models"] if one["in_use"]] == ["smollm2"]
    assert (listed["demo"], listed["suggested"]) == (True, "tiny")
    assert listed["disk_free_bytes"] > 0
    assert listed["can_pull"] is True


def test_download_shows_its_bytes_and_is_cancelled_and_resumed(
    client: httpx2.Client, hub: HeldHub
) -> None:
    """Four gigabytes over a home's line: one sees them come, stops, and goes on the next day.

    The source sends nothing when the download is cancelled, as on a line that hangs.
    """
    assert client.post("/api/models/tiny/pull").status_code == 202
    wait_until(lambda: (model(client)["pull"] or {}).get("done") == len(CONTENT) // 2)
    assert model(client)["pull"]["total"] == len(CONTENT)
    assert model(client)["pull"]["step"] == "downloading"
    again = client.post("/api/models/tiny/pull")
    assert again.json()["error"]["code"] == "pull_under_way"

    client.delete("/api/models/tiny/pull").raise_for_status()
    wait_until(lambda: model(client)["pull"]["state"] == "cancelled", timeout=5)
    hub.go_on.set()
    assert model(client)["installed"] is False
    client.post("/api/models/tiny/pull").raise_for_status()

    assert settled(client)["installed"] is True
    assert model(client)["pull"] is None
    assert hub.hub.ranges[0] == ""
    assert hub.hub.ranges[1].startswith("bytes=")


def test_download_from_a_source_that_never_responds_is_cancelled(
    empty_house: House, tmp_path: Path
) -> None:
    """A source may accept a connection and hang: the button works then, too."""
    with socket.create_server(("127.0.0.1", 0)) as source:
        write_catalogue(tmp_path / "models.yaml", f"http://127.0.0.1:{source.getsockname()[1]}/a")
        empty_house.more["catalogue"] = str(tmp_path / "models.yaml")
        with empty_house.running(), empty_house.client() as client:
            client.post("/api/models/tiny/pull").raise_for_status()
            with source.accept()[0] as connection:
                assert connection.recv(3) == b"GET"
                client.delete("/api/models/tiny/pull").raise_for_status()

                wait_until(lambda: model(client)["pull"]["state"] == "cancelled", timeout=5)


def test_failed_download_says_why_and_can_be_tried_again(
    client: httpx2.Client, hub: HeldHub
) -> None:
    """A wrong file is never used; after the source is mended the same button gets it."""
    hub.go_on.set()
    hub.hub.content = b"X" + CONTENT[1:]
    client.post("/api/models/tiny/pull").raise_for_status()

    failed = settled(client)
    assert failed["pull"]["state"] == "failed"
    assert "its sha256 is not the one that the catalogue has for tiny" in failed["pull"]["error"]
    hub.hub.content, hub.hub.etag = CONTENT, '"v2"'
    client.post("/api/models/tiny/pull").raise_for_status()
    assert settled(client)["installed"] is True


def test_full_disk_is_told_before_a_byte_is_written(
    client: httpx2.Client, empty_house: House, tmp_path: Path, hub: HeldHub
) -> None:
    """The catalogue is read again when it changes, and a model that has no room is refused."""
    write_catalogue(
        tmp_path / "models.yaml", "https://example.org/x", size_bytes=10**18, ram_bytes=10**6
    )
    client.post("/api/models/tiny/pull").raise_for_status()

    assert "is too full for the model" in settled(client)["pull"]["error"]
    assert hub.hub.ranges == []


def test_model_is_removed_but_not_the_one_in_use(client: httpx2.Client, hub: HeldHub) -> None:
    """A click must not take the answers away."""
    hub.go_on.set()
    for name in ("smollm2", "tiny"):
        client.post(f"/api/models/{name}/pull").raise_for_status()
        assert settled(client, name)["installed"] is True

    assert client.delete("/api/models/tiny").status_code == 204
    refused = client.delete("/api/models/smollm2")

    assert model(client)["installed"] is False
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "model_in_use")
    assert model(client, "smollm2")["installed"] is True


def test_use_needs_the_file_and_an_instance_that_can_change_it(
    client: httpx2.Client, hub: HeldHub
) -> None:
    """Without `hearth up` around the service, the answer is the command to type."""
    refused = client.post("/api/models/tiny/use")

    assert refused.status_code == 409
    assert refused.json()["error"]["message"] == "hearth models use MODEL"
    assert client.get("/api/models").json()["command"] == "hearth models use MODEL"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/models/tinyy/pull"),
        ("DELETE", "/api/models/tinyy/pull"),
        ("DELETE", "/api/models/tinyy"),
    ],
)
def test_unknown_model_is_named(client: httpx2.Client, method: str, path: str) -> None:
    """A typing mistake in a program is told with the right name."""
    refused = client.request(method, path)

    assert refused.status_code == 404
    assert "Did you mean tiny?" in refused.json()["error"]["message"]


def test_issued_key_changes_nothing(client: httpx2.Client) -> None:
    """A key for the kitchen tablet must not fill the disk."""
    headers = {"x-hearth-caller": "kitchen;1;signature"}

    for method, path in (("GET", ""), ("POST", "/tiny/pull"), ("DELETE", "/tiny")):
        refused = client.request(method, f"/api/models{path}", headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_administrator")


def test_cluster_names_the_command(empty_house: House, hub: HeldHub, tmp_path: Path) -> None:
    """On a cluster Ansible distributes models: the page says so and changes nothing."""
    (tmp_path / "consul").mkdir()
    with running(tmp_path / "consul") as consul:
        consul.register("moe-gateway", int(empty_house.gateway.rpartition(":")[2]))
        empty_house.more["consul_url"] = consul.url
        empty_house.model.expert |= {"name": "general", "model": "tiny"}
        with empty_house.running(), empty_house.client() as client:
            wait_until(lambda: model(client)["served_by"] == ["general"])
            listed = client.get("/api/models").json()
            refused = client.post("/api/models/tiny/pull")

    assert (listed["can_pull"], listed["can_use"], listed["demo"]) == (False, False, False)
    assert "deploy_expert.yaml" in listed["command"]
    assert refused.status_code == 409
    assert "deploy_expert.yaml" in refused.json()["error"]["message"]
