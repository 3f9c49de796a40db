"""When a machine may sleep, what keeps it awake, and what wakes it again."""

import json
import os
import subprocess
import time
from pathlib import Path

import httpx2

from hearth.openai_api.testing import ScriptedModel
from power_manager.packets import magic_packet
from power_manager.presence import gpu_programs
from tests.integration.gateway.conftest import Lab, chat, wait_until
from tests.integration.power.conftest import MAC, Ear, Json, Machine, Start, in_state

QUICK: Json = {"sleep_after_seconds": 0.2, "quiet_seconds": 0.1, "suspend_seconds": 2}
NOBODY = 65534


def ask(client: httpx2.Client, busy: str = "") -> Json:
    """Ask as the machine does, and return the advice."""
    asked = client.post("/api/machines/box/advice", json={"busy": busy}).raise_for_status()
    advice: Json = asked.json()
    return advice


def drain(client: httpx2.Client) -> None:
    """Ask until the machine is about to sleep."""
    in_state(client, "awake")
    wait_until(lambda: bool(ask(client)["advice"] == "ask_again"))


def hold(client: httpx2.Client, seconds: float, *, wake: bool = False) -> Json:
    """Hold the machine as a person does."""
    body = {"holder": "ada", "reason": "a long experiment", "seconds": seconds, "wake": wake}
    report: Json = client.post("/api/machines/box/holds", json=body).raise_for_status().json()
    return report


def test_idle_machine_sleeps_and_is_woken(start: Start, machine: Machine, ear: Ear) -> None:
    """Two questions, so that a request between them keeps it awake; then it is gone."""
    client = start(**QUICK)
    drain(client)
    draining = in_state(client, "draining")

    advice = ask(client)
    machine.sleep()
    in_state(client, "asleep")
    client.post("/api/machines/box/wake", json={})
    packet = ear.packet()
    machine.wake()
    awake = in_state(client, "awake")

    assert draining["reason"].startswith("It was idle for ")
    assert (advice["advice"], packet) == ("sleep", magic_packet(MAC))
    assert awake["idle_seconds"] < 20
    assert 'power_manager_sleeps_total{machine="box"} 1.0' in client.get("/metrics").text


def test_machine_without_an_idle_time_stays_awake(start: Start) -> None:
    """An update must not switch off a machine that nobody wanted to sleep."""
    client = start()
    in_state(client, "awake")

    assert ask(client) == {
        "advice": "stay", "seconds": 0, "reason": "It has no idle time after which it sleeps.",
    }  # fmt: skip


def test_machine_that_nothing_could_wake_stays_awake(start: Start) -> None:
    """Its owner is away, and its models would be, too."""
    client = start(box={"wakeable": False}, **QUICK)
    wait_until(lambda: in_state(client, "awake")["idle_seconds"] > 0.3)

    assert ask(client)["reason"] == (
        "Nothing could wake it: wake-on-LAN is not enabled on its network card."
    )
    assert client.post("/api/machines/box/sleep").status_code == 409


def test_hold_keeps_it_awake_until_it_ends(start: Start) -> None:
    """A holder that was killed must not keep it awake for ever."""
    client = start(**QUICK)
    in_state(client, "awake")

    hold(client, 1)
    held = [ask(client) for _ in range(2)]
    wait_until(lambda: bool(ask(client)["advice"] == "sleep"))

    assert (
        held == [{"advice": "stay", "seconds": 0, "reason": "ada needs it: a long experiment."}] * 2
    )


def test_hold_that_arrives_while_it_drains_keeps_it_awake(start: Start) -> None:
    """A person asks something in the very seconds in which the machine is about to sleep."""
    client = start(**QUICK)
    drain(client)

    held = hold(client, 30)

    assert (held["state"], held["holds"][0]["holder"]) == ("awake", "ada")
    assert ask(client)["advice"] == "stay"
    client.delete("/api/machines/box/holds/ada").raise_for_status()
    assert in_state(client, "awake")["idle_seconds"] < 5


def test_hold_can_wake_it(start: Start, machine: Machine, ear: Ear) -> None:
    """A request that was under way when the machine fell asleep is answered after all."""
    client = start(**QUICK, attempt_seconds=30)
    in_state(client, "awake")
    machine.sleep()
    in_state(client, "asleep")

    quiet = hold(client, 30)
    loud = hold(client, 30, wake=True)
    early = ask(client)  # Its own timer is faster than the probe.

    assert (quiet["state"], loud["state"]) == ("asleep", "waking")
    assert early["reason"] == "It is being woken: a long experiment."
    assert client.get("/api/machines/box").json()["state"] == "waking"
    assert ear.packet() == magic_packet(MAC)


def test_wake_waits_until_a_machine_that_may_sleep_is_gone(
    start: Start, machine: Machine, ear: Ear
) -> None:
    """A packet that arrives before its card listens for it is lost."""
    client = start(**{**QUICK, "suspend_seconds": 30})
    drain(client)
    assert ask(client)["advice"] == "sleep"

    waking = client.post("/api/machines/box/wake", json={"reason": "the model big is needed"})
    assert "power_manager_magic_packets_total{" not in client.get("/metrics").text
    machine.sleep()
    packet = ear.packet()
    machine.wake()

    assert waking.json()["state"] == "waking"
    assert packet == magic_packet(MAC)
    in_state(client, "awake")


def test_wake_of_a_machine_that_could_not_sleep_ends_at_once(start: Start) -> None:
    """Its systemd has refused; the request that came meanwhile must not wait for that."""
    client = start(**{**QUICK, "suspend_seconds": 30})
    drain(client)
    assert ask(client)["advice"] == "sleep"
    client.post("/api/machines/box/wake", json={"reason": "the model big is needed"})

    advice = ask(client, "systemctl suspend failed: Access denied")

    assert advice["advice"] == "stay"
    assert in_state(client, "awake")["wake_seconds_p50"] < 20


def test_machine_that_does_not_go_is_awake_again(start: Start) -> None:
    """Its systemd has refused, and its service was killed before it could say so."""
    client = start(**{**QUICK, "suspend_seconds": 0.3})
    drain(client)
    assert ask(client)["advice"] == "sleep"

    assert in_state(client, "awake")["reason"] == "It did not go to sleep in time."


def test_machine_that_is_back_does_not_sleep_again_at_once(start: Start) -> None:
    """Somebody pressed its button before the power manager had noticed that it was asleep."""
    client = start(**{**QUICK, "suspend_seconds": 30})
    drain(client)
    assert ask(client)["advice"] == "sleep"

    assert ask(client)["reason"] == "It is awake again."
    assert in_state(client, "awake")["idle_seconds"] < 5


def test_machine_that_asks_before_the_next_check_is_not_idle(
    start: Start, machine: Machine
) -> None:
    """Its timer goes on where it was: it asks a second after somebody has pressed its button."""
    client = start(**QUICK, check_seconds=2)
    in_state(client, "awake")
    machine.sleep()
    wait_until(lambda: in_state(client, "asleep")["idle_seconds"] > 0.3)

    machine.wake()
    advice = ask(client)

    assert advice["advice"] == "stay"
    assert advice["reason"].startswith("It was idle for 0 s")


def test_pause_before_sleep_may_be_longer_than_a_suspension(start: Start) -> None:
    """The check of its state must not end the pause."""
    client = start(**{**QUICK, "quiet_seconds": 1, "suspend_seconds": 0.2})
    drain(client)
    drained = time.monotonic()

    wait_until(lambda: time.monotonic() - drained > 0.6)

    assert ask(client)["advice"] == "sleep"


def test_what_the_machine_sees_itself_keeps_it_awake(start: Start) -> None:
    """Only the machine knows who sits in front of it; the idle time begins when they leave."""
    client = start(**QUICK)
    wait_until(lambda: in_state(client, "awake")["idle_seconds"] > 0.3)

    advice = ask(client, "ada is logged in.")

    assert (advice["advice"], advice["reason"]) == ("stay", "ada is logged in.")
    report = in_state(client, "awake")
    assert report["reason"] == "ada is logged in."
    assert report["idle_seconds"] < 0.3


def test_person_lets_it_sleep_without_the_idle_time(start: Start, machine: Machine) -> None:
    """Before a holiday, and not in the middle of somebody's answer."""
    client = start(quiet_seconds=0)
    in_state(client, "awake")
    too_early = client.post("/api/machines/box/sleep")
    ask(client)
    hold(client, 30)
    held = client.post("/api/machines/box/sleep")
    client.delete("/api/machines/box/holds/ada")

    accepted = client.post("/api/machines/box/sleep")
    advice = [ask(client), ask(client)]
    machine.sleep()
    in_state(client, "asleep")
    machine.wake()  # Somebody has pressed its button.
    in_state(client, "awake")

    assert too_early.status_code == held.status_code == 409
    assert too_early.json()["error"]["message"] == (
        "Nothing on it asks whether it may sleep: hearth-sleep.timer does not run there."
    )
    assert held.json()["error"]["message"] == "ada needs it: a long experiment."
    assert accepted.status_code == 200
    assert [one["advice"] for one in advice] == ["ask_again", "sleep"]
    assert advice[1]["reason"] == "A person asked for it."
    assert ask(client)["reason"] == "It has no idle time after which it sleeps."


def test_long_holds_and_old_times_outlive_a_restart(start: Start, tmp_path: Path) -> None:
    """Who holds a machine for a night does not notice that the power manager was updated."""
    file = tmp_path / "state.json"
    file.write_text(json.dumps({"box": [31.5]}))
    first = start(state_file=file)
    assert in_state(first, "awake")["wake_seconds_p50"] == 31.5
    hold(first, 3600)
    gone = {"holder": "bob", "reason": "x", "wake": False}
    for seconds in (3600, 60):  # The second one replaces the first.
        first.post("/api/machines/box/holds", json={**gone, "seconds": seconds})

    second = start(state_file=file)

    report = in_state(second, "awake")
    assert report["wake_seconds_p50"] == 31.5
    assert [one["holder"] for one in report["holds"]] == ["ada"]
    assert 3500 < report["holds"][0]["seconds_left"] <= 3600


def test_gateway_holds_a_machine_whose_model_is_in_use(
    start: Start, lab: Lab, tmp_path: Path
) -> None:
    """The power manager sees no requests: the gateway tells it of them."""
    manager = start(**QUICK)
    gateway = lab.gateway(
        lab.expert(ScriptedModel(), machine="box"),
        power_url=str(manager.base_url), power_key_file=tmp_path / "service_key",
    )  # fmt: skip

    assert gateway.post("/v1/chat/completions", json=chat("Hello", "small")).status_code == 200
    wait_until(lambda: bool(in_state(manager, "awake")["holds"]))

    report = in_state(manager, "awake")
    assert report["holds"][0]["holder"] == "moe-gateway"
    assert report["holds"][0]["reason"] == "the model small is in use"
    assert ask(manager)["advice"] == "stay"


def test_program_of_a_person_on_the_graphics_card_is_found(tmp_path: Path) -> None:
    """Nobody likes a computer that falls asleep in the middle of a game."""
    card = tmp_path / "renderD128"
    card.touch(mode=0o666)
    devices = [f"{tmp_path}/renderD*"]
    before = gpu_programs(devices=devices)
    person = NOBODY if os.geteuid() == 0 else None
    with card.open("rb") as opened:
        game = subprocess.Popen(["sleep", "60"], stdin=opened, user=person)
    try:
        found = gpu_programs(devices=devices)
    finally:
        game.kill()
        game.wait()

    assert (before, found) == ("", "sleep uses the graphics card.")
    assert gpu_programs(devices=devices) == ""
