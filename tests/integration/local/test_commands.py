"""`--detach`, `down`, `status`, `logs` and `doctor` on real instances."""

import json
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime

from hearth.service.state import read_instance
from tests.integration.local.conftest import Tiny, wait_for


def test_detached_start_returns_when_all_is_healthy_and_down_ends_it(tiny: Tiny) -> None:
    """The terminal comes back only when the thing can be used, and it can be stopped again."""
    up = tiny.up("--detach")

    assert up.ended() == 0
    assert tiny.web in up.out
    assert "Stopped" not in up.out
    assert tiny.run("status").returncode == 0
    instance = read_instance(tiny.state)
    assert instance is not None
    assert os.getsid(instance.pid) != os.getsid(0)

    down = tiny.run("down")
    assert (down.returncode, down.stdout) == (0, "Stopped.\n")
    tiny.assert_nothing_left()


def test_detached_start_that_fails_tells_it(tiny: Tiny) -> None:
    """A script must not go on as if it ran."""
    tiny.be(pipecatapp={"arguments": ["--fails"]})
    up = tiny.up("--detach")

    assert up.ended() == 1
    assert "pipecatapp did not start" in up.err
    tiny.assert_nothing_left()


def test_interrupted_detached_start_leaves_nothing(tiny: Tiny) -> None:
    """Ctrl-C before it is ready stops what is already running in the background."""
    tiny.be(pipecatapp={"arguments": ["--ready-when", "/nonexistent/ready"]})
    up = tiny.start("--detach")
    up.says("loading")
    up.send(signal.SIGINT)

    assert up.ended() == 130, up.err
    tiny.assert_nothing_left()


def test_reason_for_the_end_of_a_detached_instance_is_in_its_log(tiny: Tiny) -> None:
    """Nobody watches the terminal of a detached instance."""
    tiny.up("--detach")
    instance = tiny.running()
    tiny.be(moe_gateway={"arguments": ["--fails"]})
    gateway = next(s for s in instance.services if s.name == "moe-gateway")
    os.kill(gateway.pid, signal.SIGKILL)
    assert "ended with SIGKILL" in wait_for(
        lambda: tiny.run("logs", "moe-gateway").stdout.partition("hearth: ")[2], "it is told"
    )
    tiny.run("down")

    assert "Stopped." not in tiny.run("status").stdout
    tiny.assert_nothing_left()


def test_down_while_starting_stops_the_start(tiny: Tiny) -> None:
    """A start that takes too long can be ended from another terminal."""
    tiny.be(llama_expert={"arguments": ["--ready-when", "/nonexistent/ready"]})
    up = tiny.start()
    up.says("loading")

    assert tiny.run("status").returncode == 1
    assert tiny.run("down").stdout == "Stopped.\n"
    assert up.ended() == 130, up.err
    tiny.assert_nothing_left()


def test_down_of_nothing_is_no_error(tiny: Tiny) -> None:
    """A script may stop what is already stopped."""
    down = tiny.run("down")

    assert down.returncode == 0
    assert down.stdout == f"No instance is running on {tiny.state.root}.\n"


def test_status_as_json_has_exactly_the_promised_fields(tiny: Tiny) -> None:
    """Programs read it: a field that is missing, or named otherwise, breaks them."""
    before = datetime.now(UTC)
    tiny.up("--detach")
    ended = tiny.run("status", "--json")
    status = json.loads(ended.stdout)
    tiny.run("down")

    assert ended.returncode == 0
    assert list(status) == ["web", "api", "key_file", "services"]
    assert status["web"] == tiny.web
    assert status["api"] == f"http://127.0.0.1:{tiny.port_base + 80}/v1"
    assert status["key_file"] == str(tiny.state.key_file)
    for service in status["services"]:
        assert list(service) == ["name", "pid", "port", "healthy", "since", "detail"]
        assert service["healthy"] is True
        assert before < datetime.fromisoformat(service["since"]) < datetime.now(UTC)


def test_status_tells_which_service_is_not_healthy_and_why(tiny: Tiny) -> None:
    """The table is where a person looks first when something is wrong."""
    ready = tiny.state.root / "ready"
    tiny.be(llama_expert={"arguments": ["--ready-when", str(ready)]})
    ready.touch()
    tiny.up("--detach")
    ready.unlink()
    table, status = tiny.run("status"), json.loads(tiny.run("status", "--json").stdout)
    tiny.run("down")

    assert table.returncode == 1
    assert "not healthy" in table.stdout
    assert "start: loading" in table.stdout
    assert [s["healthy"] for s in status["services"]] == [False, True, True]
    assert status["services"][0]["detail"] == "start: loading"


def test_status_of_nothing_has_its_own_exit_code(tiny: Tiny) -> None:
    """Not running and not healthy are two things to a script."""
    table, as_json = tiny.run("status"), tiny.run("status", "--json")

    assert (table.returncode, as_json.returncode) == (3, 3)
    assert table.stdout == f"No instance is running on {tiny.state.root}.\n"
    assert json.loads(as_json.stdout) == {
        "web": None, "api": None, "key_file": None, "services": [],
    }  # fmt: skip


def test_two_instances_run_side_by_side(make_tiny: Callable[[], Tiny]) -> None:
    """One to live with and one to try things on."""
    one, other = make_tiny(), make_tiny()
    assert one.up("--detach").ended() == 0
    assert other.up("--detach").ended() == 0
    one.run("down")

    one.assert_nothing_left()
    assert other.run("status").returncode == 0
    other.run("down")
    other.assert_nothing_left()


def test_logs_of_all_services_come_in_the_order_of_time(tiny: Tiny) -> None:
    """What happened first is read first, whichever service wrote it."""
    tiny.up("--detach")
    tiny.run("down")
    lines = tiny.run("logs").stdout.splitlines()
    stopped = [line for line in lines if "stopped at" in line]

    assert [line.split()[0] for line in stopped] == ["pipecatapp", "moe-gateway", "llama-expert"]
    assert lines.index(stopped[0]) > lines.index(
        next(line for line in lines if "starting on" in line and line.startswith("llama-expert"))
    )
    assert tiny.run("logs", "pipecatapp", "-n", "1").stdout.startswith("pipecatapp | stopped at")


def test_logs_of_an_unknown_service_ask_what_was_meant(tiny: Tiny) -> None:
    """Names are long; a typing error must not look like an empty log."""
    tiny.up("--detach")
    tiny.run("down")
    ended = tiny.run("logs", "moe-gatway")

    assert ended.returncode == 1
    assert "did you mean moe-gateway?" in ended.stderr


def test_doctor_finds_nothing_wrong_with_a_running_instance(tiny: Tiny) -> None:
    """Its own ports and its own lock are not what is wrong; those of another instance are not
    looked at."""
    tiny.up("--detach")
    ended = tiny.run("doctor")
    instance = read_instance(tiny.state)
    tiny.run("down")

    assert ended.returncode == 0, ended.stdout
    assert "fail" not in ended.stdout
    assert "moe-gateway: ready" in ended.stdout
    assert instance is not None
    told = [line.split()[2] for line in ended.stdout.splitlines() if line.startswith("pass  port")]
    assert told == [str(service.port) for service in instance.services]


def test_doctor_fails_with_the_remedy_for_each_fault(tiny: Tiny) -> None:
    """The one command to run when nothing else helps must not miss the obvious."""
    folder = tiny.state.models / "smollm2"
    folder.mkdir(parents=True)
    (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"damaged")
    tiny.state.key_file.write_text("sk-hearth-x\n", encoding="utf-8")
    tiny.state.key_file.chmod(0o644)
    tiny.state.version_file.write_text("99\n", encoding="utf-8")
    ended = tiny.run("doctor", "--port-base", str(tiny.port_base))

    assert ended.returncode == 1
    for remedy in ("hearth models pull smollm2", "chmod 600", "Update Hearth"):
        assert remedy in " ".join(ended.stdout.split()), ended.stdout
