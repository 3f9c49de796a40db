"""The job mosquitto on a real Nomad, with the configuration and the rules that the role renders."""

import getpass
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from hearth.settings import Settings
from tests.integration.local.conftest import wait_for
from tests.integration.monitoring.agents import NODE, Consul, Nomad
from tests.ports import free_port
from tests.rules.tree import ROOT

pytestmark = [pytest.mark.nomad, pytest.mark.timeout(300)]
JOB: Final = ROOT / "nomad_jobs" / "mosquitto.nomad.hcl"
TEMPLATES: Final = ROOT / "ansible" / "roles" / "mosquitto" / "templates"
PLAY: Final = """
- name: Render the job variables of the MQTT broker
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Check the settings
      ansible.builtin.include_role: {name: mosquitto, tasks_from: preflight.yaml, public: true}
    - name: Write the job variables
      ansible.builtin.copy: {content: "{{ __mosquitto_variables | to_json }}", dest: "{{ out }}"}
"""
PASSWORDS: Final = {"home-assistant": "of the home", "plug": "of the plug", "other": "of another"}
DEVICES: Final = {"plug": ["write tele/plug/#"], "other": ["readwrite other/#"]}
UNPRIVILEGED: Final = "nobody"
"""Who runs the broker if root runs the tests: as root, it would choose a user by itself."""


def render(folder: Path, **settings: object) -> "subprocess.CompletedProcess[str]":
    """Check settings of the role, and write the variables of its job to `folder/variables`."""
    (folder / "play.yaml").write_text(PLAY, encoding="utf-8")
    # Variables of a role that are used outside of it look for templates beside the play.
    (folder / "templates").symlink_to(TEMPLATES)
    given = {
        "out": str(folder / "variables"), "mosquitto_machine": "localhost",
        "cluster_awake": ["localhost"], "cluster_datacenter": "dc1", "cluster_security": "none",
        "hearth_user": getpass.getuser(), "hearth_data_dir": str(folder), **settings,
    }  # fmt: skip
    return subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", "-c", "local",
         "-e", json.dumps(given), "play.yaml"],
        cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
    )  # fmt: skip


@dataclass(frozen=True)
class Broker:
    """The broker that runs as a job, and Debian's clients to it."""

    nomad: Nomad
    variables: dict[str, Any]

    def start(self) -> None:
        """Run the job; return when the broker answers."""
        self.nomad.run(JOB, **self.variables)
        wait_for(lambda: self.publish("home-assistant", "ready", "now").returncode == 0, "MQTT")

    def publish(self, user: str, topic: str, text: str) -> "subprocess.CompletedProcess[str]":
        """Publish a retained message by MQTT 5, in which the broker names its reason."""
        return self._run("mosquitto_pub", user, "-V", "5", "-q", "1", "-r", "-t", topic, "-m", text)

    def read(self, user: str, topic: str, seconds: int = 2) -> list[str]:
        """The messages of a topic that a client gets at once or within the time."""
        ended = self._run("mosquitto_sub", user, "-t", topic, "-W", str(seconds), "-v")
        return ended.stdout.splitlines()

    def anonymous(self, *options: str) -> "subprocess.CompletedProcess[str]":
        """Subscribe without a name, or with these options."""
        return self._run("mosquitto_sub", "", "-t", "#", "-C", "1", "-W", "5", *options)

    def _run(self, program: str, user: str, *words: str) -> "subprocess.CompletedProcess[str]":
        login = ["-u", user, "-P", PASSWORDS[user]] if user else []
        address = ["-h", "127.0.0.1", "-p", str(self.variables["port"])]
        return subprocess.run(
            [program, *address, *login, *words], capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker with the clients of the cluster and two devices."""
    if not shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin"):
        reason = "There is no mosquitto: as root, apt-get install mosquitto mosquitto-clients"
        (pytest.fail if Settings.load().test_strict else pytest.skip)(reason)
    folder = tmp_path_factory.mktemp("role")
    with tempfile.TemporaryDirectory(prefix="hearth-mqtt-") as data:
        user = getpass.getuser()
        if user == "root":
            user = UNPRIVILEGED
            shutil.chown(data, user)
        rendered = render(
            folder, mosquitto_port=free_port(), mosquitto_data_dir=data, hearth_user=user,
            mosquitto_devices=DEVICES,
        )  # fmt: skip
        assert rendered.returncode == 0, rendered.stdout
        variables = json.loads((folder / "variables").read_text(encoding="utf-8"))
        with (
            Consul(tmp_path_factory.mktemp("consul")) as consul,
            Nomad(tmp_path_factory.mktemp("nomad"), consul) as nomad,
        ):
            nomad.put_variable("nomad/jobs/mosquitto", **PASSWORDS)
            broker = Broker(nomad, variables | {"machine": NODE})
            broker.start()
            yield broker


def test_only_clients_with_their_password_are_let_in(broker: Broker) -> None:
    """Whoever is in the network could otherwise switch lights and listen to sensors."""
    nobody = broker.anonymous()
    guessed = broker.anonymous("-u", "home-assistant", "-P", "guessed")

    assert "not authorised" in nobody.stderr.lower(), nobody
    assert "not authorised" in guessed.stderr.lower(), guessed
    assert broker.publish("plug", "tele/plug/power", "12").returncode == 0
    assert broker.read("home-assistant", "tele/plug/#") == ["tele/plug/power 12"]


def test_device_uses_only_the_topics_of_its_rules(broker: Broker) -> None:
    """A plug that was taken over may tell a wrong power, and nothing else."""
    refused = broker.publish("plug", "other/lamp", "on")
    broker.publish("other", "other/lamp", "off")

    assert "not authorized" in (refused.stdout + refused.stderr).lower(), refused
    assert broker.read("home-assistant", "other/#") == ["other/lamp off"]
    assert broker.read("plug", "other/#") == []


def test_retained_messages_outlive_the_job(broker: Broker) -> None:
    """After a power cut, Home Assistant learns the last state of each device from the broker."""
    broker.publish("other", "other/state", "kept")
    broker.nomad.stop_job("mosquitto")
    wait_for(lambda: broker.anonymous().stderr.startswith("Error: Connection refused"), "the end")
    wait_for(lambda: not broker.nomad.running(), "the job ends")

    broker.start()

    assert broker.read("home-assistant", "other/state") == ["other/state kept"]


def test_passwords_are_stored_as_hashes_for_the_broker_alone(broker: Broker) -> None:
    """Its file may be read by nobody else, and a backup of it tells no password."""
    (address,) = broker.nomad.consul.instances("mosquitto")
    assert address["ServicePort"] == broker.variables["port"]
    for process in Path("/proc").glob("[0-9]*"):
        if (process / "comm").read_text() == "mosquitto\n":
            file = process / "cwd" / "secrets" / "passwords"
            if file.exists() and "plug:" in file.read_text():
                assert file.stat().st_mode & 0o077 == 0
                assert PASSWORDS["plug"] not in file.read_text()
                return
    pytest.fail("no broker runs with these passwords")


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ({"Plug 1": ["read #"]}, "'Plug 1' is not a valid name of an MQTT client"),
        ({"plug": ["tele/plug/#"]}, "'tele/plug/#' is not a valid access rule of an MQTT client"),
    ],
)
def test_invalid_device_is_refused_before_anything_is_installed(
    tmp_path: Path, devices: dict[str, list[str]], message: str
) -> None:
    """A line that the broker cannot read would stop it, and all devices with it."""
    ended = render(tmp_path, mosquitto_devices=devices)

    assert ended.returncode != 0
    assert message in " ".join(ended.stdout.split())
