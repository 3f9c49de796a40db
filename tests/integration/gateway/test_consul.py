"""Which servers there are, as a real Consul tells: used and dropped as their health changes."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import (
    CHAT,
    SERVICE_KEY,
    Json,
    Lab,
    chat,
    events,
    instances_of,
    text_of,
    wait_until,
)
from tests.integration.gateway.consul import ConsulServer, running

DEADLINE = 15.0
"""A second is promised, and these machines are busy with other tests; whoever only asked again
after the longest wait would need twice as long."""

LOOK_SECONDS = 0.05
LOOKS_OF_A_SECOND = int(1 / LOOK_SECONDS)
"""The promised second, in requests that the gateway answers with a pause between two: a machine
that stands still, or has too much to do, has fewer of them."""

SMALL = "llama-expert-small"


@pytest.fixture
def consul(tmp_path: Path) -> Iterator[ConsulServer]:
    with running(tmp_path) as server:
        yield server


def port_of(lab: Lab, model: ScriptedModel) -> int:
    return urlsplit(lab.serve(model.app)).port or 0


def gateway_on(lab: Lab, consul: ConsulServer, tmp_path: Path, **more: object) -> httpx2.Client:
    key = tmp_path / "service_key"
    fields: Json = {
        "consul_url": consul.url,
        "expert_key_file": key,
        "agent_key_file": key,
        "check_interval": 1,
        "models_interval": 5,
        **more,
    }
    return lab.gateway(ready=False, **fields)


@contextmanager
def hanging_after(looks: int) -> Iterator[tuple[int, threading.Event]]:
    """The port of a server that answers so many connections and then, when the event is set, takes
    no more of them: its queue is full, as that of a machine which hangs."""
    hangs = threading.Event()
    with ExitStack() as sockets, ThreadPoolExecutor(1) as thread:
        listener = sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.settimeout(60)

        def answer() -> None:
            for _ in range(looks):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            listener.listen(0)
            for _ in range(4):
                waiting = sockets.enter_context(socket.socket())
                waiting.settimeout(0)
                waiting.connect_ex(listener.getsockname())
            hangs.set()

        answering = thread.submit(answer)
        yield listener.getsockname()[1], hangs
        answering.result()


def seconds_until(happened: Callable[[], bool]) -> float:
    began = time.monotonic()
    wait_until(happened)
    return time.monotonic() - began


@contextmanager
def others_know(consul: ConsulServer, state: str) -> Iterator[None]:
    """Go on when Consul has told somebody else who waits for it that the expert has this state:
    what the agent itself needs for that is not the gateway's time."""
    path, ends = f"/v1/health/service/{SMALL}", time.monotonic() + 60

    def wait(index: str) -> None:
        while time.monotonic() < ends:
            query = {"index": index, "wait": "5s"}
            answer = consul.api.get(path, params=query).raise_for_status()
            index = answer.headers["x-consul-index"]
            checks = [check for entry in answer.json() for check in entry["Checks"]]
            if state in [check["Status"] for check in checks if check["ServiceName"]]:
                return
        raise TimeoutError(f"Consul does not call it {state}.")

    with ThreadPoolExecutor(1) as threads:
        now = consul.api.get(path).raise_for_status().headers["x-consul-index"]
        told = threads.submit(wait, now)
        yield
        told.result()


def looks_until(happened: Callable[[], bool]) -> int:
    """How often it had to be looked at until it had happened, the first time not counted."""
    looks, ends = 0, time.monotonic() + 60
    while not happened():
        assert time.monotonic() < ends, "It did not happen."
        looks += 1
        time.sleep(LOOK_SECONDS)
    return looks


def status_of(gateway: httpx2.Client, model: str) -> int:
    return gateway.post(CHAT, json=chat("x", model)).status_code


def test_expert_is_used_and_dropped_as_its_health_in_consul_turns(
    lab: Lab, consul: ConsulServer, tmp_path: Path
) -> None:
    """A model that has just loaded serves at once; one that is ill gets no request any more."""
    port = port_of(lab, ScriptedModel("scripted-135m", key=SERVICE_KEY))
    consul.register(SMALL, port, state="critical", expert="small", model="scripted-135m")
    gateway = gateway_on(lab, consul, tmp_path)
    wait_until(lambda: len(instances_of(gateway)) == 1)
    assert status_of(gateway, "small") == 503

    with others_know(consul, "passing"):
        consul.judge(SMALL, port, "pass")
    until_used = looks_until(lambda: status_of(gateway, "small") == 200)
    with others_know(consul, "critical"):
        consul.judge(SMALL, port, "fail", "out of memory")
    until_dropped = looks_until(lambda: status_of(gateway, "small") == 503)

    assert until_used <= LOOKS_OF_A_SECOND
    assert until_dropped <= LOOKS_OF_A_SECOND
    assert "out of memory" in gateway.post(CHAT, json=chat("x")).json()["error"]["message"]


def test_meta_of_an_expert_decides_how_it_is_used(
    lab: Lab, consul: ConsulServer, tmp_path: Path
) -> None:
    """Only the launcher knows which model of its list runs, and so what the expert can do."""
    port = port_of(lab, ScriptedModel("scripted-135m", key=SERVICE_KEY))
    consul.register(
        SMALL, port, expert="small", aliases="tiny,quick", model="scripted-135m",
        model_reason="big-7b does not fit into 2.1 GB", slots="3", context="2048", tools="none",
        vision="true", cost="0.5", stops_unary="false",
    )  # fmt: skip
    gateway = gateway_on(lab, consul, tmp_path)

    wait_until(lambda: status_of(gateway, "quick") == 200)

    [expert] = gateway.get("/api/experts").json()["experts"]
    assert expert["aliases"] == ["tiny", "quick"]
    assert expert["model_reason"] == "big-7b does not fit into 2.1 GB"
    assert (expert["context"], expert["tools"], expert["vision"]) == (2048, "none", True)
    [instance] = expert["instances"]
    assert (instance["machine"], instance["slots"]) == ("machine1", 3)


def test_agent_is_found_with_its_models(lab: Lab, consul: ConsulServer, tmp_path: Path) -> None:
    """`agent` and `workflow/…` are asked at the same address as the experts."""
    agent = ScriptedModel("agent", "workflow/report", key=SERVICE_KEY)
    consul.register("pipecatapp", port_of(lab, agent))
    consul.register("grafana", 1)
    gateway = gateway_on(lab, consul, tmp_path)

    wait_until(lambda: status_of(gateway, "workflow/report") == 200)

    assert len(instances_of(gateway)) == 1


def test_instance_that_is_deregistered_leaves_no_trace(
    lab: Lab, consul: ConsulServer, tmp_path: Path
) -> None:
    """Ports change with each start, so metrics of those that are gone would pile up for ever."""
    ports = [port_of(lab, ScriptedModel(key=SERVICE_KEY)) for _ in range(2)]
    for port in ports:
        consul.register(SMALL, port, expert="small")
    gateway = gateway_on(lab, consul, tmp_path)
    wait_until(lambda: len(instances_of(gateway)) == 2)
    for _ in range(4):
        assert status_of(gateway, "small") == 200

    consul.deregister(SMALL, ports[0])
    gone = seconds_until(lambda: len(instances_of(gateway)) == 1)

    assert gone < DEADLINE
    assert status_of(gateway, "small") == 200
    assert f":{ports[0]}" not in gateway.get("/metrics").text


def test_request_under_way_is_not_cut_when_its_instance_is_dropped(
    lab: Lab, consul: ConsulServer, tmp_path: Path
) -> None:
    """A node that drains takes nothing new, and says its last sentence to the end."""
    model = ScriptedModel(key=SERVICE_KEY)
    model.when("go").say("word " * 20, pause=0.05)
    port = port_of(lab, model)
    consul.register(SMALL, port, expert="small")
    gateway = gateway_on(lab, consul, tmp_path)
    wait_until(lambda: status_of(gateway, "small") == 200)

    with gateway.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        model.wait_until(lambda m: m.words_sent >= 2)
        consul.deregister(SMALL, port)
        wait_until(lambda: instances_of(gateway) == [])
        found = events(answer)

    assert text_of(found) == "word " * 20
    assert found[-1] == "[DONE]"
    wait_until(lambda: f":{port}" not in gateway.get("/metrics").text)


def test_consul_that_goes_away_takes_nobody_along(
    lab: Lab, consul: ConsulServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last known set stays, which is said once; when Consul is back, it counts again."""
    first, second = (ScriptedModel(key=SERVICE_KEY) for _ in range(2))
    port = port_of(lab, first)
    consul.register(SMALL, port, expert="small")
    gateway = gateway_on(lab, consul, tmp_path)
    wait_until(lambda: status_of(gateway, "small") == 200)

    consul.stop()
    wait_until(lambda: gateway.get("/api/experts").json()["consul"]["away"] is not None)
    time.sleep(1)
    kept = status_of(gateway, "small")
    consul.start()
    consul.register("llama-expert-other", port_of(lab, second), expert="other")
    wait_until(lambda: status_of(gateway, "other") == 200)

    assert kept == 200
    assert gateway.get("/api/experts").json()["consul"]["away"] is None
    wait_until(lambda: status_of(gateway, "small") == 404)
    log = capsys.readouterr().out
    assert log.count("consul_away") == 1
    assert log.count("consul_answers") == 2


def test_expert_that_dies_while_consul_is_away_is_dropped(
    lab: Lab, consul: ConsulServer, tmp_path: Path
) -> None:
    """The gateway looks for itself, too: a set that nobody renews must not send callers nowhere."""
    model = ScriptedModel(key=SERVICE_KEY)
    consul.register(SMALL, port_of(lab, model), expert="small")
    gateway = gateway_on(lab, consul, tmp_path)
    wait_until(lambda: status_of(gateway, "small") == 200)
    consul.stop()

    model.loading = True

    assert seconds_until(lambda: status_of(gateway, "small") == 503) < DEADLINE


def test_machine_that_hangs_is_given_up_before_consul_notices(
    lab: Lab, consul: ConsulServer, tmp_path: Path
) -> None:
    """It takes no connection, and is still called well. Alone it is 504, to be asked again; beside
    another one the caller only waits a little longer."""
    well, looks = ScriptedModel(key=SERVICE_KEY), 3
    consul.register("llama-expert-well", port_of(lab, well), expert="well", cost="9")
    with hanging_after(2 * looks) as (port, hangs):
        for name in ("alone", "beside"):
            auto = str(name == "beside").lower()
            consul.register(f"llama-expert-{name}", port, expert=name, cost="1", auto=auto)
        gateway = gateway_on(lab, consul, tmp_path, check_interval=3600, connect_timeout=1.5)
        wait_until(lambda: sum(one["healthy"] for one in instances_of(gateway)) == 3)
        assert hangs.wait(60)

        alone = gateway.post(CHAT, json=chat("x", "alone"))
        beside = gateway.post(CHAT, json=chat("x", "auto"))

    assert alone.status_code == 504
    assert alone.json()["error"]["code"] == "upstream_connect_timeout"
    assert alone.headers["retry-after"] == "1"
    assert "x-should-retry" not in alone.headers
    assert beside.status_code == 200
    assert beside.headers["x-hearth-expert"] == "well"
    passed_over = f"; not beside@127.0.0.1:{port}: upstream_connect_timeout"
    assert beside.headers["x-hearth-route"].endswith(passed_over)


def test_token_opens_a_consul_that_is_closed(lab: Lab, tmp_path: Path) -> None:
    """With the rights to read services and nodes, and not without: then it says so."""
    (tmp_path / "token").write_text("")
    folder = tmp_path / "closed"
    folder.mkdir()
    with running(folder, acl=True) as consul:
        consul.register(SMALL, port_of(lab, ScriptedModel(key=SERVICE_KEY)), expert="small")
        gateway = gateway_on(lab, consul, tmp_path, consul_token_file=tmp_path / "token")
        wait_until(lambda: "may not read" in str(gateway.get("/health").json()["reasons"]))

        rules = 'service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }'
        (tmp_path / "token").write_text(consul.token(rules) + "\n")

        wait_until(lambda: status_of(gateway, "small") == 200)
        assert gateway.get("/health").status_code == 200


def test_many_changes_at_once_end_in_the_right_set(
    lab: Lab, consul: ConsulServer, tmp_path: Path
) -> None:
    """A reboot of a machine turns everything on it ill and well again within seconds."""
    ports = [port_of(lab, ScriptedModel(key=SERVICE_KEY)) for _ in range(4)]
    gateway = gateway_on(lab, consul, tmp_path)

    def churn(port: int) -> None:
        for _ in range(5):
            consul.register(f"llama-expert-e{port}", port, expert=f"e{port}")
            consul.judge(f"llama-expert-e{port}", port, "fail")
            consul.deregister(f"llama-expert-e{port}", port)
        consul.register(f"llama-expert-e{port}", port, expert=f"e{port}")

    threads = [threading.Thread(target=churn, args=[port]) for port in ports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    wait_until(lambda: [one["healthy"] for one in instances_of(gateway)] == [True] * 4)
    assert all(status_of(gateway, f"e{port}") == 200 for port in ports)
