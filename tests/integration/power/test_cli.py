"""`hearth power` against a real power manager, and a machine that sleeps and wakes."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2
import pytest
import typer
from typer.testing import CliRunner, Result

from power_manager.cli import commands
from tests.integration.gateway.conftest import wait_until
from tests.integration.power.conftest import Ear, Machine, Start, in_state
from tests.ports import free_port

MINUTE: Final = 60


class Commands:
    """The command of a person whose settings name a power manager."""

    def __init__(self, url: str, key_file: Path) -> None:
        self.url, self.key_file = url, key_file

    def __call__(self, words: str) -> Result:
        app = typer.Typer()
        commands(app)
        app.callback()(lambda: None)
        where = ["--manager", self.url, "--key-file", str(self.key_file)]
        return CliRunner().invoke(app, ["power", *words.split(), *where])


@pytest.fixture
def manager(start: Start) -> httpx2.Client:
    """A power manager of one machine that is awake."""
    client = start(quiet_seconds=0.1)
    in_state(client, "awake")
    return client


@pytest.fixture
def run(manager: httpx2.Client, tmp_path: Path) -> Commands:
    return Commands(str(manager.base_url), tmp_path / "power_key")


@contextmanager
def living(client: httpx2.Client, machine: Machine, ear: Ear) -> Iterator[None]:
    """The machine asks, sleeps when it may, and wakes up at the packet."""
    ended = threading.Event()

    def live() -> None:
        while not ended.wait(0.05):
            advice = client.post("/api/machines/box/advice", json={}).json()["advice"]
            if advice == "sleep":
                machine.sleep()
                ear.packet()
                machine.wake()

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_test_measures_a_sleep_and_a_wake(
    run: Commands, manager: httpx2.Client, machine: Machine, ear: Ear
) -> None:
    """Whoever has just set a machine up wants to know whether it comes back."""
    with living(manager, machine, ear):
        wait_until(lambda: in_state(manager, "awake")["asked_seconds_ago"] is not None)
        measured = run("test box").output

    assert re.search(
        r"(?s)^box sleeps after \d+ s\.$.*^It woke up in \d+\.\d s: wake-on-LAN works\.$",
        measured, re.MULTILINE,
    ), measured  # fmt: skip


def test_sleep_says_why_the_machine_stays_awake(run: Commands, manager: httpx2.Client) -> None:
    """Somebody else is logged in on it."""
    ended = threading.Event()

    def ask() -> None:
        while not ended.wait(0.05):
            manager.post("/api/machines/box/advice", json={"busy": "bob is logged in."})

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        wait_until(lambda: in_state(manager, "awake")["asked_seconds_ago"] is not None)
        refused = run("sleep box")
    finally:
        ended.set()
        thread.join()

    assert refused.exit_code == 1
    assert refused.stderr == "box stays awake. bob is logged in.\n"


def test_wake_without_a_wait_does_not_say_that_it_is_awake(
    run: Commands, manager: httpx2.Client, machine: Machine
) -> None:
    """A script goes on at once, and must not believe that the machine is there."""
    awake = run("wake box --wait 0")
    machine.sleep()
    in_state(manager, "asleep")

    waking = run("wake box --wait 0")

    assert awake.output == "box is awake.\n"
    assert "box is being woken.\n" in waking.output
    assert "box is awake" not in waking.output


def test_wake_explains_a_machine_that_stays_asleep(
    start: Start, machine: Machine, tmp_path: Path
) -> None:
    """The usual causes are in the firmware and in the cable."""
    client = start(attempts=1)
    machine.sleep()
    in_state(client, "asleep")

    ended = Commands(str(client.base_url), tmp_path / "power_key")("wake box")

    assert ended.exit_code == 1
    assert ended.stderr.startswith(
        "box did not wake up. It did not answer after 1 magic packets. Check that wake-on-LAN"
    )


def test_hold_is_shown_and_released(run: Commands) -> None:
    """The next person sees who keeps the machine awake, and why."""
    held = run("hold box 90m --reason training")
    listed = json.loads(run("list --json").output)["machines"][0]
    table = run("list").output
    released = run("release box")
    after = json.loads(run("list --json").output)["machines"][0]

    assert held.output == "box stays awake for 90m.\n"
    assert released.output == "box may sleep when it is idle.\n"
    assert listed["holds"][0]["reason"] == "training"
    assert 89 * MINUTE < listed["holds"][0]["seconds_left"] <= 90 * MINUTE
    assert "training" in table
    assert after["holds"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("wake bax", "The machine 'bax' is not one that may sleep. Those are: box."),
        ("sleep box", "Nothing on it asks whether it may sleep: hearth-sleep.timer does not run"),
        ("hold box 3w", "'3w' is not a time of at most 7 days, such as 90m, 8h or 2d."),
        ("hold box 8d", "'8d' is not a time of at most 7 days, such as 90m, 8h or 2d."),
    ],
)
def test_what_cannot_be_done_is_one_sentence(run: Commands, words: str, message: str) -> None:
    """A person reads it in a terminal."""
    ended = run(words)

    assert (ended.exit_code, ended.stderr.startswith(message)) == (1, True), ended.output


def test_address_that_is_wrong_is_one_sentence(run: Commands, manager: httpx2.Client) -> None:
    """A wrong port is the most common mistake."""
    nobody = Commands(f"http://127.0.0.1:{free_port()}", run.key_file)("list")
    other = Commands(f"{manager.base_url}/elsewhere", run.key_file)("list")
    wrong_key = Commands(run.url, Path(__file__))("list")

    assert (nobody.exit_code, other.exit_code, wrong_key.exit_code) == (1, 1, 1)
    assert "does not answer" in nobody.stderr
    assert len(other.stderr.splitlines()) == len(wrong_key.stderr.splitlines()) == 1
