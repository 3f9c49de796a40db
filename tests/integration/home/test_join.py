"""`hearth home join`: a real Home Assistant uses Hearth, and Hearth its devices."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.binaries.home_assistant.running import HomeAssistant
from tests.integration.gateway.conftest import wait_until
from tests.integration.home.conftest import LAMP, LOCK, House
from tests.ports import free_port
from tests.shown import Shown

EXTENDED_INPUTS = [
    "pipecatapp/api/home.py",
    "pipecatapp/application/home.py",
    "pipecatapp/application/mcp.py",
    "pipecatapp/cli/home.py",
    "pipecatapp/tools/home/*",
    "pipecatapp/tools/mcp/*",
    "pipecatapp/workflows/home-turn.yaml",
    "tests/binaries/home_assistant/*",
    "tests/integration/home/conftest.py",
]
pytestmark = [pytest.mark.extended, pytest.mark.hosts, pytest.mark.timeout(1800)]


def joined(house: House, home: HomeAssistant) -> dict[str, Any]:
    """Join as the owner of both does; return what is shown of it."""
    house.model.when("capital").say("Paris.")
    ended = house.hearth("home", "join", home.url, "--json", stdin=home.token)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    house.model.reset()
    return found


@pytest.fixture(autouse=True)
def tidy(home: HomeAssistant) -> None:
    """Begin with a Home Assistant that knows no Hearth, and with the lamp off and the door open."""
    for entry in (*home.entries("llama_cpp"), *home.entries("mcp_server")):
        home.ask("DELETE", f"/api/config/config_entries/entry/{entry['entry_id']}")
    home.ask("POST", "/api/services/light/turn_off", {"entity_id": LAMP})
    home.ask("POST", "/api/services/lock/unlock", {"entity_id": LOCK})


def text_of(answer: httpx2.Response) -> str:
    assert answer.status_code == 200, answer.text
    content: str = answer.json()["choices"][0]["message"]["content"]
    return content


@pytest.mark.proves("004-52")
def test_each_uses_the_other_after_a_join(home: HomeAssistant, house: House) -> None:
    """A person speaks to Home Assistant and Hearth answers; Hearth turns a real lamp on."""
    agent = joined(house, home)["joined"]["agent"]
    house.model.when("How are you").say("Very well.")
    sentence = {"text": "How are you?", "agent_id": agent}
    said = home.ask("POST", "/api/conversation/process", sentence)
    before = home.state(LAMP)
    answer = house.say("Turn on the kitchen lamp")

    assert said["response"]["speech"]["plain"]["speech"] == "Very well."
    assert (before, home.state(LAMP)) == ("off", "on")
    assert text_of(answer) == "Turned on the light"
    assert house.steps(answer.headers["x-hearth-run"]) == [
        ("act", "home.act", "external", "done"),
        ("act/call", "mcp/home/intent__hassturnon", "external", "done"),
    ]


def test_sentence_in_home_assistant_goes_through_hearth_and_back_to_the_lamp(
    home: HomeAssistant, house: House
) -> None:
    """Whoever talks to Home Assistant need not know which of both understands the sentence."""
    agent = joined(house, home)["joined"]["agent"]
    sentence = {"text": "Turn on the kitchen lamp", "agent_id": agent}
    said = home.ask("POST", "/api/conversation/process", sentence)

    assert said["response"]["speech"]["plain"]["speech"] == "Turned on the light"
    assert home.state(LAMP) == "on"
    assert house.model.requests == []


def test_lock_moves_only_after_a_person_has_approved(home: HomeAssistant, house: House) -> None:
    """A sentence that a microphone has misheard must not open the front door."""
    joined(house, home)
    asked = house.say("Lock the front door")
    run = asked.headers["x-hearth-run"]
    before = home.state(LOCK)
    [question] = house.questions(run)
    house.agent.post(
        f"/api/runs/{run}/answer", json={"path": question["path"], "value": "yes"}
    ).raise_for_status()
    wait_until(lambda: home.state(LOCK) == "locked")

    assert "'Lock the front door': may Home Assistant do this?" in text_of(asked)
    assert before == "unlocked"
    assert question["question"]["by_voice"] is False


def test_action_of_a_model_is_approved_first_and_a_lock_each_time(
    home: HomeAssistant, house: House
) -> None:
    """A model that has read a letter may want what its author wants."""
    joined(house, home)
    for text, name in (("cosy", "Kitchen Lamp"), ("safe", "Front Door")):
        house.model.when(text).call_tool("mcp_home_intent__hassturnon", {"name": name})
    asked = [house.say(f"Make it {text}") for text in ("cosy", "safe")]
    shown = [house.questions(one.headers["x-hearth-run"])[0]["question"]["text"] for one in asked]

    assert (home.state(LAMP), home.state(LOCK)) == ("off", "unlocked")
    assert "in the rest of this conversation" in shown[0]
    assert "before each call" in shown[1]


def test_leave_removes_all_that_the_join_has_made(home: HomeAssistant, house: House) -> None:
    """Somebody who only tries it out gets both programs back as they were."""
    joined(house, home)
    both = [len(home.entries(name)) for name in ("llama_cpp", "mcp_server")]
    left = house.hearth("home", "leave")
    shown = house.hearth("home", "status")
    again = house.hearth("home", "leave")

    assert both == [1, 1]
    assert left.returncode == 0, left.stderr
    assert home.entries("llama_cpp") == home.entries("mcp_server") == []
    assert [one["revoked"] is not None for one in house.issued()] == [True]
    assert "home" not in (house.state.root / "mcp.yaml").read_text()
    assert not list((house.state.root / "secrets").iterdir())
    assert not (house.state.root / "home.json").exists()
    assert shown.stdout.startswith("No Home Assistant is joined.")
    assert (again.returncode, again.stderr) == (1, "Hearth has joined no Home Assistant.\n")


def test_join_that_is_not_possible_says_why_and_leaves_nothing(
    home: HomeAssistant, house: House
) -> None:
    """A half-made connection is worse than none: its owner would not know what to remove."""
    gateway, nobody = str(house.gateway.base_url).rstrip("/"), f"http://127.0.0.1:{free_port()}"
    house.model.when("capital").refuse(500, "broken")
    refused = {
        "wrong token": house.hearth("home", "join", home.url, stdin="wrong"),
        "no token": house.hearth("home", "join", home.url),
        "nobody": house.hearth("home", "join", nobody, stdin=home.token),
        "another server": house.hearth("home", "join", gateway, stdin=home.token),
        "no address": house.hearth("home", "join", "homeassistant.local", stdin=home.token),
        "another machine": house.hearth("home", "join", "http://192.0.2.1:8123", stdin=home.token),
        "unreachable Hearth": house.hearth(
            "home", "join", home.url, "--hearth-url", f"{nobody}/v1", stdin=home.token
        ),
        "broken model": house.hearth("home", "join", home.url, stdin=home.token),
    }
    said = {name: ended.stderr.strip() for name, ended in refused.items()}

    assert said["wrong token"].startswith("Home Assistant refused the token. Create a long-lived")
    assert said["no token"].startswith("There is no token. Create a long-lived access token")
    assert said["nobody"].startswith(f"There is no connection to Home Assistant at {nobody}.")
    assert said["another server"].startswith(f"The server at {gateway} is not a Home Assistant.")
    assert said["no address"].startswith("'homeassistant.local' is not a valid address: use http")
    assert "is on another machine, where" in said["another machine"]
    assert "it cannot reach Hearth at" in said["unreachable Hearth"]
    assert "the model did not answer it" in said["broken model"]
    assert home.entries("llama_cpp") == home.entries("mcp_server") == []
    assert all(one["revoked"] is not None for one in house.issued())
    assert not list((house.state.root / "secrets").iterdir())
    assert not (house.state.root / "home.json").exists()


def test_page_works_as_written(
    home: HomeAssistant, house: House, tmp_path: Path, shown: Shown
) -> None:
    """Owners of Home Assistant paste these lines; only their address is another one."""
    page = "docs/howto/home-assistant.md"
    join, with_secret, act, end = [shown.take(page).splitlines() for _ in range(4)]
    house.model.when("capital").say("Paris.")
    (tmp_path / "token.txt").write_text(f"{home.token}\n")

    def run(line: str, stdin: str = "") -> str:
        words = line.replace("http://homeassistant.local:8123", home.url)
        ended = house.shell(words, tmp_path, stdin)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    first = run(join[0], home.token)
    run(end[1])
    for line in with_secret:
        run(line)
    said = run(act[0])
    status, left = run(end[0]), run(end[1])

    assert first == status.replace("home-assistant-2", "home-assistant")
    assert "Devices that it shows: Front Door, Kitchen Lamp" in status
    assert "Turned on the light" in said
    assert home.state(LAMP) == "on"
    assert "The secret" not in left
    assert [one.name for one in (house.state.root / "secrets").iterdir()] == ["my-home"]


def test_second_join_names_the_first(home: HomeAssistant, house: House) -> None:
    """Two joins would leave one that nobody can leave."""
    joined(house, home)
    again = house.hearth("home", "join", home.url, "--secret", "home-assistant")

    assert again.returncode == 1
    assert again.stderr == (
        f"Hearth has joined Home Assistant at {home.url}. Run `hearth home leave` first.\n"
    )


def test_home_that_is_gone_can_be_left_by_force(home: HomeAssistant, house: House) -> None:
    """A Home Assistant that was reinstalled must not hold Hearth for ever."""
    joined(house, home)
    file = house.state.root / "home.json"
    gone = f"http://127.0.0.1:{free_port()}"
    file.write_text(file.read_text().replace(home.url, gone))
    left = house.hearth("home", "leave")
    by_force = house.hearth("home", "leave", "--force")

    assert left.returncode == 1
    assert "`hearth home leave --force` removes only what Hearth has stored." in left.stderr
    assert by_force.returncode == 0, by_force.stderr
    assert not file.exists()
