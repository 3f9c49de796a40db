"""The power manager on real sockets: states, wakes, times, and what it refuses."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from hearth.openai_api.testing import ScriptedModel
from power_manager.packets import magic_packet
from power_manager.settings import MachineSettings, Settings
from tests.integration.gateway.conftest import Lab, chat, wait_until
from tests.integration.power.conftest import MAC, Ear, Json, Machine, Start, in_state
from tests.ports import free_port


def test_states_follow_the_machine(start: Start, machine: Machine) -> None:
    """A page that shows the machines must not call one that sleeps a broken one."""
    client = start()
    in_state(client, "awake")

    machine.sleep()
    asleep = in_state(client, "asleep")
    machine.wake()

    assert in_state(client, "awake")["reason"] == asleep["reason"] == ""


def test_wake_sends_the_packet_and_measures_the_time(
    start: Start, machine: Machine, ear: Ear, tmp_path: Path
) -> None:
    """The next caller sees the measured time as an estimate, also after a restart."""
    client = start(state_file=tmp_path / "state" / "times.json")
    machine.sleep()
    in_state(client, "asleep")

    waking = client.post("/api/machines/box/wake", json={"reason": "the model big is needed"})
    again = client.post("/api/machines/box/wake", json={})
    packet = ear.packet()
    machine.wake()
    awake = in_state(client, "awake")

    assert waking.json()["state"] == again.json()["state"] == "waking"
    assert again.json()["reason"] == "the model big is needed"
    assert packet == magic_packet(MAC) == bytes.fromhex("ff" * 6 + "020000aabbcc" * 16)
    assert 0 < awake["wake_seconds_p50"] == awake["wake_seconds_p95"] < 20
    assert awake["woken_seconds_ago"] < 20
    metrics = client.get("/metrics").text
    assert 'power_manager_wakes_total{machine="box",result="awake"} 1.0' in metrics
    assert 'power_manager_machine_awake{machine="box"} 1.0' in metrics
    later = start(state_file=tmp_path / "state" / "times.json")
    assert in_state(later, "awake")["wake_seconds_p50"] == awake["wake_seconds_p50"]


def test_machine_that_does_not_wake_is_tried_again_and_then_explained(
    start: Start, machine: Machine, ear: Ear
) -> None:
    """The usual causes are in the firmware and in the cable: the message names them."""
    client = start(attempts=2)
    machine.sleep()
    in_state(client, "asleep")

    client.post("/api/machines/box/wake", json={})
    packets = [ear.packet(), ear.packet()]
    failed = in_state(client, "failed")

    assert packets == [magic_packet(MAC)] * 2
    assert failed["reason"] == (
        "It did not answer after 2 magic packets. Check that wake-on-LAN is enabled in its"
        " firmware, that it is connected by cable, and that it is in the network to whose broadcast"
        " address the packet is sent."
    )
    assert client.post("/api/machines/box/wake", json={}).json()["state"] == "waking"
    machine.wake()
    in_state(client, "awake")


def test_card_without_wake_on_lan_is_named_at_once(start: Start, machine: Machine) -> None:
    """Nobody should wait minutes for a packet that the card ignores."""
    client = start(box={"wakeable": False})
    machine.sleep()
    in_state(client, "asleep")

    client.post("/api/machines/box/wake", json={})

    reason = in_state(client, "failed")["reason"]
    assert reason.startswith("Wake-on-LAN is not enabled on its network card.")


def test_machine_that_is_awake_gets_no_packet(start: Start) -> None:
    """A request for a model that is broken must not look like one for a machine that sleeps."""
    client = start()

    report = client.post("/api/machines/box/wake", json={}).json()

    assert (report["state"], report["woken_seconds_ago"]) == ("awake", None)
    assert "power_manager_magic_packets_total{" not in client.get("/metrics").text


def test_requests_that_are_not_valid_are_refused(start: Start) -> None:
    """Whoever can wake machines can raise the bill for power."""
    client = start()

    unknown = client.post("/api/machines/bax/wake", json={})
    wrong_key = client.get("/api/machines", headers={"authorization": "Bearer nonsense"})
    wrong_field = client.post("/api/machines/box/wake", json={"why": "x"})

    assert unknown.status_code == 404
    assert unknown.json()["error"]["message"] == (
        "The machine 'bax' is not one that may sleep. Those are: box."
    )
    assert (wrong_key.status_code, wrong_field.status_code) == (401, 400)


@pytest.mark.parametrize(
    ("field", "value"), [("mac", "02:00:00:aa:bb"), ("address", "box.lan"), ("port", 0)]
)
def test_settings_of_a_machine_are_checked(field: str, value: object) -> None:
    """A wrong digit would otherwise be found when the machine is needed."""
    box = {"name": "box", "mac": MAC, "address": "127.0.0.1", field: value}

    with pytest.raises(ValueError, match=field):
        Settings.model_validate({"key_files": ["/key"], "machines": [box]})


@pytest.mark.parametrize(
    ("fields", "to"),
    [
        ({"address": "192.168.1.13/24"}, "192.168.1.255"),
        ({"address": "10.0.5.6/16"}, "10.0.255.255"),
        ({"address": "192.168.1.13"}, "255.255.255.255"),
        ({"address": "192.168.1.13/24", "broadcast": "192.168.7.255"}, "192.168.7.255"),
    ],
)
def test_packet_goes_to_the_network_of_the_machine(fields: Json, to: str) -> None:
    """Of a machine with two networks, the default route may lead into the other one."""
    box = MachineSettings.model_validate({"name": "box", "mac": "02-00-00-AA-BB-CC", **fields})

    assert str(box.broadcast_address) == to
    assert box.mac == MAC


def test_damaged_file_of_times_is_replaced(start: Start, machine: Machine, tmp_path: Path) -> None:
    """It only holds estimates, so it must not prevent the start."""
    file = tmp_path / "times.json"
    file.write_text("{")
    client = start(state_file=file)
    machine.sleep()
    in_state(client, "asleep")

    client.post("/api/machines/box/wake", json={})
    machine.wake()
    awake = in_state(client, "awake")

    assert json.loads(file.read_text())["times"] == {"box": [awake["wake_seconds_p50"]]}


def test_smaller_model_answers_while_the_machine_wakes(
    start: Start, machine: Machine, ear: Ear, lab: Lab, tmp_path: Path
) -> None:
    """Who prefers an answer now gets one, and the large model is there for the next request."""
    manager = start()
    machine.sleep()
    in_state(manager, "asleep")
    away = {"expert": "big", "machine": "box", "fallback": ["small"]}
    gateway = lab.gateway(
        lab.at(f"http://127.0.0.1:{machine.port}", **away), lab.expert(ScriptedModel()),
        power_url=str(manager.base_url), power_key_file=tmp_path / "service_key",
        wake_policy="smaller", connect_timeout=0.2, check_timeout=0.2, ready=False,
    )  # fmt: skip
    wait_until(lambda: gateway.get("/health").status_code == 200)

    answer = gateway.post("/v1/chat/completions", json=chat("Hello", "big"))

    assert answer.status_code == 200
    assert answer.headers["x-hearth-expert"] == "small"
    assert "big is not ready; its fallback small" in answer.headers["x-hearth-route"]
    assert ear.packet() == magic_packet(MAC)


def test_fallback_answers_if_the_machine_does_not_wake(
    start: Start, machine: Machine, lab: Lab, tmp_path: Path
) -> None:
    """The cable was pulled out, and the small model is there."""
    manager = start(attempts=1)
    machine.sleep()
    in_state(manager, "asleep")
    away = {"expert": "big", "machine": "box", "fallback": ["small"]}
    gateway = lab.gateway(
        lab.at(f"http://127.0.0.1:{machine.port}", **away), lab.expert(ScriptedModel()),
        power_url=str(manager.base_url), power_key_file=tmp_path / "service_key",
        connect_timeout=0.2, check_timeout=0.2, ready=False,
    )  # fmt: skip
    wait_until(lambda: gateway.get("/health").status_code == 200)

    answer = gateway.post("/v1/chat/completions", json=chat("Hello", "big"))

    assert answer.status_code == 200
    assert answer.headers["x-hearth-expert"] == "small"
    in_state(manager, "failed")


def test_failed_wake_is_an_error_that_clients_do_not_repeat(
    start: Start, machine: Machine, lab: Lab, tmp_path: Path
) -> None:
    """Official clients try a 503 three times: each of them would take the whole wake again."""
    manager = start(attempts=1)
    machine.sleep()
    in_state(manager, "asleep")
    gateway = lab.gateway(
        lab.at(f"http://127.0.0.1:{machine.port}", expert="big", machine="box"),
        power_url=str(manager.base_url), power_key_file=tmp_path / "service_key",
        connect_timeout=0.2, check_timeout=0.2, ready=False,
    )  # fmt: skip

    answer = gateway.post("/v1/chat/completions", json=chat("Hello", "big"))

    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "machine_not_waking"
    assert answer.json()["error"]["message"].startswith(
        "The machine 'box' of 'big' did not wake up. It did not answer after 1 magic packets."
    )
    assert answer.headers["x-should-retry"] == "false"


def test_power_manager_that_is_away_changes_no_error(
    lab: Lab, machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first cause is that the model is not there; the log has the second one."""
    machine.sleep()
    gateway = lab.gateway(
        lab.at(f"http://127.0.0.1:{machine.port}", expert="big", machine="box"),
        power_url=f"http://127.0.0.1:{free_port()}", power_key_file=tmp_path / "service_key",
        connect_timeout=0.2, check_timeout=0.2, ready=False,
    )  # fmt: skip

    answer = gateway.post("/v1/chat/completions", json=chat("Hello", "big"))

    assert answer.json()["error"]["code"] == "model_unavailable"
    assert "power_manager_unavailable" in capsys.readouterr().out


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk without space."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(disk)], check=True)
    try:
        (disk / "filler").write_bytes(bytes(4096))
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_full_disk_makes_neither_a_wake_nor_a_hold_fail(
    start: Start, machine: Machine, full_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file system without space takes what a restart would need, not the machine."""
    client = start(state_file=full_disk / "state.json")
    machine.sleep()
    in_state(client, "asleep")

    client.post("/api/machines/box/wake", json={})
    machine.wake()
    hold = {"holder": "ada", "reason": "training", "seconds": 3600}
    held = client.post("/api/machines/box/holds", json=hold)

    assert (held.status_code, held.json()["holds"][0]["holder"]) == (200, "ada")
    assert "No space left on device" in capsys.readouterr().out
    assert in_state(client, "awake")["wake_seconds_p50"] is not None
    metrics = client.get("/metrics").text
    assert 'power_manager_wakes_total{machine="box",result="awake"} 1.0' in metrics
    assert 'result="failed"' not in metrics


def test_hundred_requests_share_one_wake(
    start: Start, machine: Machine, ear: Ear, lab: Lab, tmp_path: Path
) -> None:
    """A house full of programs that ask again must not flood the network or the power manager."""
    manager = start(attempt_seconds=20)
    machine.sleep()
    in_state(manager, "asleep")
    gateway = lab.gateway(
        lab.at(f"http://127.0.0.1:{machine.port}", expert="big", machine="box"),
        power_url=str(manager.base_url), power_key_file=tmp_path / "service_key",
        connect_timeout=0.2, check_timeout=0.2, wake_seconds=3, ready=False,
    )  # fmt: skip

    def ask(_: int) -> int:
        body = chat("Hello", "big")
        return int(gateway.post("/v1/chat/completions", json=body, timeout=60).status_code)

    with ThreadPoolExecutor(100) as pool:
        asked = pool.map(ask, range(100))
        first = ear.packet()
        statuses = list(asked)

    assert first == magic_packet(MAC)
    assert statuses == [503] * 100
    sent = 'power_manager_magic_packets_total{machine="box"} 1.0'
    assert sent in manager.get("/metrics").text


def test_wake_outlives_a_kill_of_the_power_manager(
    machine: Machine, ear: Ear, lab: Lab, tmp_path: Path
) -> None:
    """The request that waits has the machine woken again, and ends with the cause that is left."""
    port = free_port()
    box = {"name": "box", "mac": MAC, "address": "127.0.0.1", "port": machine.port,
           "broadcast": "127.255.255.255"}  # fmt: skip
    settings = {
        "PORT": str(port), "KEY_FILES": json.dumps([str(tmp_path / "service_key")]),
        "MACHINES": json.dumps([box]), "PROBE_SECONDS": "0.1", "CHECK_SECONDS": "0.1",
    }  # fmt: skip
    environment = os.environ | {f"POWER_MANAGER_{name}": text for name, text in settings.items()}
    command = [sys.executable, "-m", "power_manager"]
    machine.sleep()
    gateway = lab.gateway(
        lab.at(f"http://127.0.0.1:{machine.port}", expert="big", machine="box"),
        power_url=f"http://127.0.0.1:{port}", power_key_file=tmp_path / "service_key",
        connect_timeout=0.2, check_timeout=0.2, wake_seconds=6, ready=False,
    )  # fmt: skip
    with (
        ThreadPoolExecutor(1) as pool,
        subprocess.Popen(command, env=environment) as first,
        ExitStack() as stack,
    ):
        stack.callback(first.kill)
        wait_until(lambda: _listens(port))
        asked = pool.submit(gateway.post, "/v1/chat/completions", json=chat("Hello", "big"))
        packet = ear.packet()
        first.kill()
        first.wait(30)
        second = stack.enter_context(subprocess.Popen(command, env=environment))
        stack.callback(second.kill)
        again = ear.packet()
        machine.wake()
        answer = asked.result()

    assert packet == again == magic_packet(MAC)
    assert answer.json()["error"]["code"] == "model_unavailable"


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_key_without_the_model_wakes_nothing(
    start: Start, machine: Machine, lab: Lab, tmp_path: Path
) -> None:
    """Otherwise anybody with some key could keep the large machine from sleeping."""
    manager = start()
    machine.sleep()
    in_state(manager, "asleep")
    gateway = lab.gateway(
        lab.at(f"http://127.0.0.1:{machine.port}", expert="big", machine="box"),
        lab.expert(ScriptedModel()), key_store=tmp_path / "keys.db",
        power_url=str(manager.base_url), power_key_file=tmp_path / "service_key",
        connect_timeout=0.2, check_timeout=0.2, ready=False,
    )  # fmt: skip
    made = gateway.post("/api/keys", json={"name": "guest", "models": ["small"]}).json()
    headers = {"authorization": f"Bearer {made['key']}"}

    answer = gateway.post("/v1/chat/completions", json=chat("Hello", "big"), headers=headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "model_not_allowed")
    assert in_state(manager, "asleep")["reason"] == ""
