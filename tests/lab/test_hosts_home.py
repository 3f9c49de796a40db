"""The services of the home on one host: MQTT, then Home Assistant, also after a reboot."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import httpx2
import pytest

from hearth.cluster.nomad import Nomad
from hearth.lab.lab import Lab
from tests.binaries.home_assistant.running import CONFIGURATION
from tests.lab.conftest import Boot
from tests.lab.home_assistant_image import COMMAND, NAME, archive
from tests.lab.playbooks import Ran, play, secrets
from tests.lab.whole.asking import Unsettled, agents, authority, patiently

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.nomad,
    pytest.mark.extended,
    pytest.mark.timeout(1500),
]
EXTENDED_INPUTS = [
    "services.yaml", "e2e-tests.yaml", "uninstall.yaml", "ansible/playbooks/e2e/home.yaml",
    "ansible/playbooks/e2e/mqtt.yaml", "ansible/playbooks/e2e/vars.yaml",
    "ansible/roles/home_assistant/**", "ansible/roles/mosquitto/**",
    "nomad_jobs/home-assistant.nomad.hcl", "nomad_jobs/mosquitto.nomad.hcl",
    "tests/binaries/home_assistant/*", "tests/lab/home_assistant_image.py",
]  # fmt: skip
HOME_TAGS: Final = "mosquitto,home_assistant"
FOLDER: Final = "/var/lib/hearth/home_assistant"
STORE: Final = f"mkdir -p {FOLDER} && cat >{FOLDER}/configuration.yaml <<'END'\n{{}}\nEND"
LOG: Final = "docker logs $(docker ps --quiet --filter name=home-assistant) 2>&1"
CLIENT: Final = "http://home.test/"
OWNER: Final = {
    "name": "Ada", "username": "ada", "password": "a password for tests", "language": "en",
    "client_id": CLIENT,
}  # fmt: skip
PUBLISH: Final = (
    "mosquitto_pub -h mosquitto.service.consul -p 8883 --cafile /etc/hearth/mosquitto/ca.pem"
    " -u hearth -P {password} -r -t {topic} -m '{text}'"
)
WAITING: Final = "Waiting for the MQTT broker at mosquitto.service.consul, port 8883."
ANSWERS: Final = "The MQTT broker answers."
ROUND_TRIP: Final = "Check that a subscriber receives the MQTT message"
ANONYMOUS: Final = "Check that an anonymous MQTT client is rejected"
MANIFEST: Final = "Request the manifest of Home Assistant"


@dataclass(frozen=True)
class Home:
    """A host with the services of the home, and what the playbook printed when it made them."""

    lab: Lab
    ran: Ran

    @property
    def url(self) -> str:
        """The address of Home Assistant."""
        return f"http://{self.lab.node('node1').address}:8123"

    def play(self, *options: str, check: bool = True, **variables: object) -> Ran:
        """Run the part of the playbook that is about the home."""
        return _play(self.lab, variables, *options, check=check)

    def test(self, *, check: bool = True, **variables: object) -> Ran:
        """Run the part of the end-to-end test that is about the home."""
        options = ("--tags", "home")
        return _play(self.lab, variables, *options, playbook="e2e-tests.yaml", check=check)

    def get(self, path: str) -> httpx2.Response:
        """Request a path of Home Assistant, as a browser in the network does."""
        with self.lab.inside():
            return httpx2.get(f"{self.url}{path}", timeout=30, trust_env=False)

    def wait(self) -> None:
        """Return when Home Assistant answers."""
        patiently(lambda: self.get("/manifest.json").raise_for_status())

    def jobs(self) -> dict[str, str]:
        """The jobs of the home: name -> status."""
        with agents(self.lab, self.lab.node("node1")) as (_, nomad):
            return {job.id: job.status for job in nomad.jobs()}

    def stop_broker(self) -> None:
        """Stop the MQTT broker; return when Consul lists no healthy instance of it."""
        with agents(self.lab, self.lab.node("node1")) as (consul, nomad):
            nomad.stop("mosquitto")

            def look() -> None:
                if consul.session.call("GET", "health/service/mosquitto", params={"passing": "1"}):
                    raise Unsettled("the broker still answers")

            patiently(look)


@pytest.fixture(scope="module")
def home(boot: Boot) -> Iterator[Home]:
    """One host with Consul, Nomad, Docker, the MQTT broker and Home Assistant."""
    lab = boot("home", 1)
    # The integrations of a default configuration would install packages from the internet.
    configuration = CONFIGURATION.format(port=8123).replace("  server_host: 127.0.0.1\n", "")
    lab.node("node1").ssh(STORE.format(configuration))
    home = Home(lab, _play(lab, {}, "--tags", f"host,docker,consul,nomad,{HOME_TAGS}"))
    home.wait()
    yield home
    lab.down()


@pytest.fixture(scope="module")
def token(home: Home) -> str:
    """An access token of the owner Ada, whom the first page of Home Assistant has created."""
    with (
        home.lab.inside(),
        httpx2.Client(base_url=home.url, timeout=30, trust_env=False) as browser,
    ):
        answer = browser.post("/api/onboarding/users", json=OWNER).raise_for_status().json()
        grant = {
            "grant_type": "authorization_code",
            "code": answer["auth_code"],
            "client_id": CLIENT,
        }
        answer = browser.post("/auth/token", data=grant).raise_for_status().json()
    return str(answer["access_token"])


@pytest.mark.proves("004-54")
def test_broker_is_healthy_before_home_assistant_is_registered(home: Home) -> None:
    """A Home Assistant that finds no broker reports all its devices as unavailable."""
    steps = [
        "[mosquitto : Run the MQTT broker job]",
        "[home_assistant : Wait until the MQTT broker answers]",
        "[home_assistant : Run the Home Assistant job]",
    ]
    places = [home.ran.output.index(step) for step in steps]
    with agents(home.lab, home.lab.node("node1")) as (_, nomad):
        healthy = _first_healthy(nomad, "mosquitto")
        registered = _registered(nomad, "home-assistant")

    assert places == sorted(places)
    assert healthy <= registered
    assert home.play("--tags", HOME_TAGS).changed == {"node1": 0}


@pytest.mark.proves("004-53")
def test_end_to_end_test_covers_mqtt_and_home_assistant(home: Home) -> None:
    """One command tells whether the home works, also where Home Assistant runs elsewhere."""
    ran = home.test()
    elsewhere = home.test(home_assistant_url=home.url)
    wrong = home.test(check=False, home_assistant_url=f"{home.url}/nothing")

    for task in (ROUND_TRIP, ANONYMOUS, MANIFEST):
        assert _status(ran, task) == "ok", ran.output[-6000:]
    assert _status(elsewhere, MANIFEST) == "ok"
    assert _status(wrong, MANIFEST) == "fatal"


@pytest.mark.proves("004-51", "004-53")
def test_home_assistant_starts_after_the_broker_also_after_a_reboot(home: Home, token: str) -> None:
    """After a power cut nobody is there to start them in order, and state must be as before."""
    assert token
    node = home.lab.node("node1")
    home.stop_broker()

    tested = home.test(check=False)
    played = home.play("--tags", "home_assistant", check=False, home_assistant_mqtt_seconds=5)
    node.reboot()

    assert tested.returncode != 0
    assert "The MQTT broker does not answer: Consul has no healthy" in _words(tested.output)
    assert "so Home Assistant is not started" in _words(played.output), played.output[-4000:]
    assert "Run the Home Assistant job" not in played.output

    def waits() -> str:
        log = node.ssh(LOG).strip()
        if not log.endswith(WAITING):
            raise Unsettled(log[-300:])
        return node.ssh("sleep 15; ss --listening --tcp --numeric; " + LOG)

    log = patiently(waits)
    assert ":8123" not in log
    assert log.strip().endswith(WAITING)

    home.play("--tags", "mosquitto")
    home.wait()

    assert ANSWERS in node.ssh(LOG)
    assert {step["step"]: step["done"] for step in home.get("/api/onboarding").json()}["user"]
    home.test()


def test_home_assistant_discovers_devices_through_the_broker(home: Home, token: str) -> None:
    """The name, the certificate and the passwords of the page fit: a device appears by itself."""
    settings = {
        "broker": "mosquitto.service.consul", "port": 8883, "username": "home-assistant",
        "password": secrets()["mosquitto_password_home_assistant"],
    }  # fmt: skip
    with (
        home.lab.inside(),
        httpx2.Client(
            base_url=home.url, timeout=60, trust_env=False,
            headers={"Authorization": f"Bearer {token}"},
        ) as browser,
    ):  # fmt: skip
        file = browser.post("/api/file_upload", files={"file": authority().read_bytes()})
        other = {
            "set_client_cert": False, "set_ca_cert": "custom", "transport": "tcp",
            "certificate": file.raise_for_status().json()["file_id"],
        }  # fmt: skip
        flow = browser.post("/api/config/config_entries/flow", json={"handler": "mqtt"}).json()
        form = settings | {"other_settings": other}
        added = browser.post(f"/api/config/config_entries/flow/{flow['flow_id']}", json=form).json()
        assert added["type"] == "create_entry", added

        topic = "hearth/tests/power"
        device = {"name": "Tests power", "unique_id": "tests-power", "state_topic": topic}
        for name, text in (
            ("homeassistant/sensor/tests/config", json.dumps(device)),
            (topic, "42"),
        ):
            password = secrets()["mosquitto_password_hearth"]
            home.lab.node("node1").ssh(PUBLISH.format(password=password, topic=name, text=text))

        def state() -> str:
            found = browser.get("/api/states/sensor.tests_power").raise_for_status().json()["state"]
            if found == "unknown":
                raise Unsettled("the sensor has no value")
            return str(found)

        assert patiently(state, 60) == "42"


def test_state_outlives_an_allocation_and_the_end_of_the_job(home: Home, token: str) -> None:
    """Whoever changes or removes Home Assistant keeps what was set up in it."""
    assert token
    before = _allocation(home)
    home.play("--tags", "home_assistant", home_assistant_memory_mb=900)
    home.wait()
    after = _allocation(home)
    stored = home.lab.node("node1").ssh(f"cat {FOLDER}/.storage/auth")

    home.play("--tags", HOME_TAGS, home_assistant_url=home.url)
    elsewhere = home.jobs()
    home.play("--tags", HOME_TAGS, home_assistant_enabled=False)
    ran = home.test(home_assistant_enabled=False)

    assert before != after
    assert [user["name"] for user in json.loads(stored)["data"]["users"] if user["is_owner"]] == [
        "Ada"
    ]
    assert (elsewhere.get("mosquitto"), elsewhere.get("home-assistant")) == ("running", None)
    assert home.jobs() == {}
    assert ROUND_TRIP not in ran.output
    assert _status(ran, MANIFEST) == "not run"
    assert home.lab.node("node1").ssh(f"cat {FOLDER}/.storage/auth") == stored


def test_uninstall_removes_broker_and_home_assistant(home: Home) -> None:
    """Neither a program nor a unit of them is left; what was set up stays unless it is named."""
    home.play("--tags", HOME_TAGS)
    node = home.lab.node("node1")
    _play(home.lab, {}, "-e", "uninstall_confirm=lab", playbook="uninstall.yaml")

    left = node.ssh(
        "ls -d /usr/sbin/mosquitto /usr/bin/mosquitto_pub /etc/mosquitto /etc/hearth"
        " /etc/systemd/system/mosquitto.service /var/lib/docker/containers/* 2>/dev/null || true"
    )
    assert left == ""
    assert node.ssh("pgrep --exact mosquitto || true") == ""
    assert "configuration.yaml" in node.ssh(f"ls {FOLDER}")


def _play(
    lab: Lab, variables: Mapping[str, object], *options: str, check: bool = True,
    playbook: str = "playbook.yaml",
) -> Ran:  # fmt: skip
    chosen: dict[str, object] = {
        "home_assistant_enabled": True,
        "home_assistant_image": NAME,
        "home_assistant_image_archive": str(archive()),
        "home_assistant_command": list(COMMAND),
        **variables,
    }
    return play(lab, *options, nodes=1, playbook=playbook, check=check, variables=chosen)


def _status(ran: Ran, task: str) -> str:
    """How a task ended on the host: `ok`, `fatal` or, where it was left out, `not run`."""
    text = ran.output.partition(f"TASK [{task}]")[2].partition("TASK [")[0]
    return next(
        (line.partition(":")[0] for line in text.splitlines() if line.endswith("]") or "=>" in line
         if line.partition(":")[0] in {"ok", "fatal"}),
        "not run",
    )  # fmt: skip


def _words(text: str) -> str:
    return " ".join(text.split())


def _allocation(home: Home) -> str:
    with agents(home.lab, home.lab.node("node1")) as (_, nomad):
        (found,) = [one.id for one in nomad.allocations("home-assistant") if one.runs]
    return found


def _first_healthy(nomad: Nomad, job: str) -> float:
    """When an allocation of a job was found healthy, in seconds since 1970."""
    rows: list[dict[str, Any]] = [
        nomad.session.call("GET", f"allocation/{one.id}") for one in nomad.allocations(job)
    ]
    times = [row["DeploymentStatus"]["Timestamp"] for row in rows if row.get("DeploymentStatus")]
    return min(datetime.fromisoformat(f"{text[:19]}+00:00").timestamp() for text in times)


def _registered(nomad: Nomad, job: str) -> float:
    """When a job was registered for the first time, in seconds since 1970."""
    versions = nomad.session.call("GET", f"job/{job}/versions")["Versions"]
    return min(float(version["SubmitTime"]) for version in versions) / 1e9
