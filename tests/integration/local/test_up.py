"""`hearth up` from start to stop, with the real supervisor over real processes."""

import json
import os
import re
import signal

import psutil
import pytest

from hearth.service.state import read_instance
from tests.integration.local.conftest import Tiny, wait_for

NEVER = "/nonexistent/ready"


def test_up_prints_addresses_key_and_a_curl_line_when_all_is_healthy(tiny: Tiny) -> None:
    """Whoever has started it knows where to go without reading anything else."""
    up = tiny.start()
    tiny.running()
    up.send(signal.SIGINT)
    up.ended()
    out = up.out
    key = tiny.state.key_file.read_text(encoding="utf-8").strip()

    assert tiny.web in out
    assert f"http://127.0.0.1:{tiny.port_base + 80}/v1" in out
    assert re.fullmatch(r"sk-hearth-[0-9a-f]{48}", key)
    assert re.search(rf"curl \S+/v1/chat/completions .*{key}.*", out)
    assert "One hint." in out
    assert re.search(r"^pipecatapp +\| stopped at", out, re.MULTILINE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_everything_and_leaves_nothing(tiny: Tiny, number: signal.Signals) -> None:
    """Ctrl-C, a closed terminal and a shutdown are all the end of every process and the lock."""
    up = tiny.start()
    instance = tiny.running()
    up.send(number)

    assert up.ended() == 0
    tiny.assert_nothing_left()
    assert len(instance.services) == 3


def test_services_stop_in_reverse_order(tiny: Tiny) -> None:
    """What others lean on goes last, so a request under way can still finish."""
    up = tiny.start()
    tiny.running()
    up.send(signal.SIGINT)
    up.ended()
    stopped = {}
    for log in tiny.state.logs.glob("*.log"):
        found = re.search(r"stopped at (\d+)", log.read_text(encoding="utf-8"))
        stopped[log.stem] = int(found[1]) if found else 0

    assert sorted(stopped, key=lambda name: stopped[name]) == [
        "pipecatapp", "moe-gateway", "llama-expert",
    ]  # fmt: skip


def test_service_that_ignores_the_stop_is_killed_when_its_time_is_up(tiny: Tiny) -> None:
    """A hanging service must not keep the terminal for ever."""
    tiny.be(moe_gateway={"arguments": ["--ignores-term", "--with-child"], "stop_seconds": 0.5})
    up = tiny.start()
    tiny.running()
    up.send(signal.SIGINT)

    assert up.ended() == 0
    tiny.assert_nothing_left()


def test_second_interrupt_ends_a_slow_stop_at_once(tiny: Tiny) -> None:
    """Whoever presses Ctrl-C again does not want to wait the minute that a stop may take."""
    tiny.be(pipecatapp={"arguments": ["--ignores-term"], "stop_seconds": 600})
    up = tiny.start()
    tiny.running()
    up.send(signal.SIGINT)
    up.says("pipecatapp: stopping")
    up.send(signal.SIGINT)

    assert up.ended() == 0
    tiny.assert_nothing_left()


def test_killed_supervisor_leaves_no_service_and_the_next_start_works(tiny: Tiny) -> None:
    """SIGKILL and the OOM killer ask nobody; ports held by orphans would stop the next start."""
    tiny.be(
        llama_expert={"arguments": ["--with-child"]}, moe_gateway={"arguments": ["--ignores-term"]}
    )
    up = tiny.start()
    instance = tiny.running()
    os.kill(instance.pid, signal.SIGKILL)
    up.ended()

    wait_for(lambda: tiny.pids() == [], "no process is left")
    assert tiny.state.lock_file.exists()
    assert read_instance(tiny.state) is None
    assert tiny.run("status").returncode == 3

    tiny.be()
    again = tiny.start()
    tiny.running()
    again.send(signal.SIGINT)
    assert again.ended() == 0
    tiny.assert_nothing_left()


def test_killed_service_is_started_again(tiny: Tiny) -> None:
    """A crash of one part is mended without a person, and programs find its new process."""
    up = tiny.start()
    first = {service.name: service.pid for service in tiny.running().services}
    os.kill(first["moe-gateway"], signal.SIGKILL)

    def restarted() -> bool:
        status = json.loads(tiny.run("status", "--json").stdout)
        now = {service["name"]: service for service in status["services"]}
        gateway = now["moe-gateway"]
        return bool(gateway["pid"] != first["moe-gateway"] and gateway["healthy"])

    wait_for(restarted, "the gateway is back")
    up.send(signal.SIGINT)
    assert up.ended() == 0
    assert "hearth: ended with SIGKILL; starting it again" in up.out
    tiny.assert_nothing_left()


def test_failing_service_ends_the_start_with_its_last_words(tiny: Tiny) -> None:
    """Half an instance would look like a whole one to whoever does not look closely."""
    tiny.be(moe_gateway={"arguments": ["--fails"]})
    ended = tiny.up()

    assert ended.ended() == 1
    assert "moe-gateway | cannot read its settings" in ended.err
    assert "moe-gateway did not start (it ended with exit code 1)" in ended.err
    assert "Traceback" not in ended.err
    tiny.assert_nothing_left()


def test_service_that_never_becomes_healthy_ends_the_start(tiny: Tiny) -> None:
    """A start that hangs must end with the reason that the service itself gives."""
    tiny.be(llama_expert={"arguments": ["--ready-when", NEVER], "start_seconds": 8})
    ended = tiny.up()

    assert ended.ended() == 1
    assert "llama-expert did not start (not ready in 8 s: start: loading)" in ended.err
    tiny.assert_nothing_left()


def test_interrupt_while_starting_leaves_nothing(tiny: Tiny) -> None:
    """A person may change her mind; the exit code tells a script that it never ran."""
    tiny.be(llama_expert={"arguments": ["--ready-when", NEVER]})
    up = tiny.start()
    up.says("loading")
    up.send(signal.SIGINT)

    assert up.ended() == 130
    tiny.assert_nothing_left()


def test_reader_that_goes_away_does_not_stop_the_services(tiny: Tiny) -> None:
    """`hearth up | head` shows the first lines; the instance is not its output."""
    reading, writing = os.pipe()
    up = tiny.start(output=writing)
    os.close(writing)
    tiny.running()
    os.close(reading)
    for service in tiny.running().services:
        os.kill(service.pid, signal.SIGKILL)

    def healthy() -> bool:
        return tiny.run("status").returncode == 0

    wait_for(healthy, "all are back")
    up.send(signal.SIGINT)
    assert up.ended() == 0
    tiny.assert_nothing_left()


def test_services_get_a_clean_environment_and_no_secret_on_their_command_lines(tiny: Tiny) -> None:
    """A leftover setting of one service must not stop another; `ps` is open to everybody."""
    tiny.environment = {"MOE_GATEWAY_POTR": "1", "NO_PROXY": "intranet", "HTTP_PROXY": "http://x"}
    up = tiny.start()
    instance = tiny.running()
    key = tiny.state.key_file.read_text(encoding="utf-8").strip()
    for service in instance.services:
        process = psutil.Process(service.pid)
        environment = process.environ()
        assert key not in " ".join(process.cmdline())
        assert not [name for name in environment if name.startswith(("HEARTH_", "MOE_GATEWAY_"))]
        assert environment["NO_PROXY"] == "intranet,127.0.0.1,localhost"
        assert key not in environment.values()
    up.send(signal.SIGTERM)
    assert up.ended() == 0
