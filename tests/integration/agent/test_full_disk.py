"""The agent on a disk that is full: a small one of its own, which the test makes and removes."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.integration.agent.conftest import House

GROW = """
kind: workflow
id: grow
inputs: {text: text}
steps:
  - {id: pause, use: wait, with: {seconds: 3}}
  - {id: large, use: value, with: {value: "{{ inputs.text ~ inputs.text ~ inputs.text }}"}}
"""
SIZE = 24 << 20
KEYS = ("key", "service_key")


@pytest.fixture
def small_disk(empty_house: House) -> Iterator[Path]:
    """The state directory of the house on a disk of 24 MiB."""
    with mounted(empty_house.state) as disk:
        yield disk


@contextmanager
def mounted(state: Path) -> Iterator[Path]:
    """A state directory with its keys on a disk of 24 MiB."""
    keys = {file.name: file.read_bytes() for file in state.iterdir() if file.name in KEYS}
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(state)], check=True)
    try:
        for name, content in keys.items():
            (state / name).write_bytes(content)
        yield state
    finally:
        subprocess.run(["umount", "--lazy", str(state)], check=True)


def until(client: httpx2.Client, path: str, holds: Callable[[httpx2.Response], bool]) -> str:
    """Ask until the answer is as expected; gives its text."""
    ends = time.monotonic() + 60
    while not holds(answer := client.get(path)):
        assert time.monotonic() < ends, answer.text[-500:]
        time.sleep(0.1)
    return answer.text


def fill(disk: Path) -> Path:
    """Write a file that leaves no room on the disk, and return it."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        written = 1
        while written:
            try:
                written = filler.write(bytes(1 << 16))
            except OSError:
                break
    return disk / "filler"


def test_run_on_a_full_disk_pauses_and_goes_on(empty_house: House, small_disk: Path) -> None:
    """The run of a whole evening was lost to a disk that was full for a minute, and the service
    reported that it was ready."""
    with empty_house.running(), empty_house.client() as client:
        text = "x" * 300_000
        new = {"document": GROW, "inputs": {"text": text}}
        run = client.post("/api/runs", json=new).raise_for_status().json()["run"]
        filler = fill(small_disk)

        told = until(client, "/health", lambda answer: answer.status_code == 503)
        assert "is full: runs are paused until there is room" in told
        assert client.get(f"/api/runs/{run}").json()["status"] == "running"
        filler.unlink()

        until(client, "/health", lambda answer: answer.status_code == 200)
        until(client, f"/api/runs/{run}", lambda answer: answer.json()["status"] == "done")


def test_run_that_is_started_on_a_full_disk_is_refused(
    empty_house: House, small_disk: Path
) -> None:
    """Its caller waited without an answer, for as long as the disk was full."""
    new = {"document": GROW, "inputs": {"text": "x" * 300_000}}
    with empty_house.running(), empty_house.client() as client:
        filler = fill(small_disk)

        refusals = [client.post("/api/runs", json=new) for _ in range(2)]
        told = until(client, "/health", lambda answer: answer.status_code == 503)

        assert "is full: runs are paused until there is room" in told
        for refusal in refusals:
            error = refusal.json()["error"]
            assert (refusal.status_code, error["code"]) == (503, "disk_full")
            assert "is full, so no run can be started. Make room" in error["message"]
        assert client.get("/api/runs").json()["runs"] == []
        filler.unlink()
        until(client, "/health", lambda answer: answer.status_code == 200)
        assert client.post("/api/runs", json=new).status_code == 201


def test_file_for_which_there_is_no_room_is_told_and_leaves_nothing(
    small_disk: Path, empty_house: House
) -> None:
    """A person learns that the disk is full, and a smaller file still fits."""
    with empty_house.running(), empty_house.client() as client:
        refused = client.post("/api/files", content=bytes(SIZE))
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (503, "not_stored")
        assert error["message"] == "The file cannot be stored: No space left on device."
        assert [path.name for path in (small_disk / "uploads").iterdir()] == ["git"]
        assert client.post("/api/files", content=b"small").status_code == 201
