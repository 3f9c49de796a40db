"""A machine that is switched off is woken by a request for its model, with a real packet."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from hearth.lab.lab import Lab
from hearth.lab.network import BRIDGE_ADDRESS
from tests.lab.sleeper import EXPERT_PORT, Card, install_expert, remove_expert

pytestmark = pytest.mark.hosts

KEY: Final = "sk-hearth-test-of-the-lab"
GATEWAY: Final = f"http://{BRIDGE_ADDRESS}:8080"
POWER: Final = f"http://{BRIDGE_ADDRESS}:8094"


class House:
    """A gateway and a power manager on a machine that is always on, and one machine that sleeps.

    `node3` starts its expert `big` whenever it starts.
    """

    def __init__(self, lab: Lab, folder: Path, stack: ExitStack) -> None:
        self.lab, self.folder, self.node = lab, folder, lab.node("node3")
        self.state_file = folder / "power.json"
        self.card = Card(lab, self.node)
        stack.enter_context(self.card.listening())
        (folder / "key").write_text(f"{KEY}\n")
        self._install_expert(stack)
        address = f"{self.node.address}/24"
        machine = {"name": "node3", "mac": self.card.mac, "address": address}
        instance = {"url": f"http://{self.node.address}:{EXPERT_PORT}", "expert": "big", "slots": 8,
                    "machine": "node3"}  # fmt: skip
        self._serve(stack, "power_manager", {
            "POWER_MANAGER_HOST": str(BRIDGE_ADDRESS), "POWER_MANAGER_PORT": "8094",
            "POWER_MANAGER_KEY_FILES": json.dumps([str(folder / "key")]),
            "POWER_MANAGER_MACHINES": json.dumps([machine]),
            "POWER_MANAGER_STATE_FILE": str(self.state_file),
            "POWER_MANAGER_CHECK_SECONDS": "0.2", "POWER_MANAGER_PROBE_SECONDS": "0.3",
            "POWER_MANAGER_ATTEMPTS": "2", "POWER_MANAGER_ATTEMPT_SECONDS": "30",
        })  # fmt: skip
        self._serve(stack, "moe_gateway", {
            "MOE_GATEWAY_HOST": str(BRIDGE_ADDRESS), "MOE_GATEWAY_PORT": "8080",
            "MOE_GATEWAY_KEY_FILES": json.dumps([str(folder / "key")]),
            "MOE_GATEWAY_INSTANCES": json.dumps([instance]),
            "MOE_GATEWAY_POWER_URL": POWER, "MOE_GATEWAY_POWER_KEY_FILE": str(folder / "key"),
            "MOE_GATEWAY_CHECK_INTERVAL": "0.2", "MOE_GATEWAY_CHECK_TIMEOUT": "0.5",
            "MOE_GATEWAY_KEEPALIVE_SECONDS": "0.2", "MOE_GATEWAY_CONNECT_TIMEOUT": "0.5",
        })  # fmt: skip
        self._until(lambda: self.state()["state"] == "awake")
        self._until(lambda: self.get(GATEWAY + "/health").status_code == 200)

    def _install_expert(self, stack: ExitStack) -> None:
        install_expert(self.node)
        stack.callback(self._restore)

    def _restore(self) -> None:
        self.card.switch_on()
        remove_expert(self.node)

    def _serve(self, stack: ExitStack, module: str, settings: dict[str, str]) -> None:
        log = stack.enter_context((self.folder / f"{module}.log").open("wb"))
        words = [f"{name}={value}" for name, value in settings.items()]
        child = subprocess.Popen(
            self.lab.command(["env", *words, sys.executable, "-m", module]),
            stdout=log, stderr=log, env={**os.environ, "NO_PROXY": "*"},
        )  # fmt: skip
        stack.callback(child.wait, 60)
        stack.callback(child.terminate)

    def switch_off(self) -> None:
        """Cut the power of the machine, and wait until the gateway knows that it is away."""
        self.card.switch_off()
        self._until(lambda: self.state()["state"] in ("asleep", "failed"))
        self._until(lambda: self.get(GATEWAY + "/health").status_code == 503)
        self.card.frames.clear()

    def state(self) -> dict[str, Any]:
        """What the power manager says of the machine."""
        found: list[dict[str, Any]] = self.get(POWER + "/api/machines").json()
        return found[0]

    def get(self, url: str) -> httpx2.Response:
        with self._client() as client:
            return client.get(url)

    def chat(self, *, policy: str | None = None, stream: bool = False) -> httpx2.Response:
        """Ask the model on the machine."""
        headers = {"x-hearth-wake": policy} if policy else {}
        body = {"model": "big", "stream": stream, "messages": [{"role": "user", "content": "Hi"}]}
        with self._client() as client:
            return client.post(GATEWAY + "/v1/chat/completions", json=body, headers=headers)

    @contextmanager
    def _client(self) -> Iterator[httpx2.Client]:
        headers = {"authorization": f"Bearer {KEY}"}
        with self.lab.inside(), httpx2.Client(headers=headers, timeout=90, trust_env=False) as one:
            yield one

    def _until(self, happened: Any) -> None:
        ends = time.monotonic() + 60
        while True:
            try:
                if happened():
                    return
            except httpx2.TransportError:
                pass  # The service is not up yet.
            if time.monotonic() > ends:
                raise TimeoutError("It did not happen.")
            time.sleep(0.05)


@pytest.fixture(scope="module")
def house(bare: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The house; each test begins with the machine off."""
    with ExitStack() as stack:
        yield House(bare, tmp_path_factory.mktemp("house"), stack)


@pytest.mark.proves("004-46")
def test_traffic_for_a_machine_that_is_off_wakes_it_with_one_packet(house: House) -> None:
    """Nobody should have to go to the cellar to use the large model; five people who ask at the
    same time wake its machine once, and all get their answers."""
    house.switch_off()

    with ThreadPoolExecutor(5) as pool:
        streams = [pool.submit(house.chat, stream=True) for _ in range(4)]
        whole = pool.submit(house.chat)
    answers = [one.result() for one in streams]

    assert whole.result().json()["choices"][0]["message"]["content"] == "Good morning."
    for answer in answers:
        assert answer.status_code == 200
        assert "Good morning." in answer.text
        assert ": waiting, machine node3 is waking up, about 60 s" in answer.text
    # It is also sent to the machine's own address, as soon as that answers ARP.
    broadcast = [frame for frame in house.card.frames if frame.startswith(b"\xff" * 6)]
    assert len(broadcast) == 1
    assert len(house.card.frames) <= 2
    state = house.state()
    assert state["state"] == "awake"
    assert 0 < state["wake_seconds_p50"] < 60
    kept = json.loads(house.state_file.read_text())
    assert kept["times"] == {"node3": [state["wake_seconds_p50"]]}


def test_policy_of_a_request_decides_whether_it_waits(house: House) -> None:
    """A program with a time limit wants an error at once, and the model when it asks again."""
    house.switch_off()

    refused = house.chat(policy="refuse")
    wrong = house.chat(policy="later")

    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "machine_asleep"
    assert "The machine 'node3' of 'big' is being woken up" in refused.json()["error"]["message"]
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert wrong.status_code == 400
    assert wrong.json()["error"]["message"] == (
        "x-hearth-wake is 'wait', 'smaller' or 'refuse', not 'later'."
    )
    assert house.chat().status_code == 200


def test_request_that_meets_a_machine_just_switched_off_is_answered(house: House) -> None:
    """The gateway may not know yet that the machine is away: its connection fails first."""
    house.node.wait()
    assert house.chat().status_code == 200
    house.card.switch_off()

    answer = house.chat()

    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == "Good morning."
