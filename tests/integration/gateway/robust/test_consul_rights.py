"""A Consul that tells less than there is, or nonsense: the last known set stays, the log has one
line for each way, and `/api/experts` and `/health` tell why, with the remedy."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from hearth.cluster import watch
from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import (
    CHAT,
    SERVICE_KEY,
    Json,
    Lab,
    chat,
    instances_of,
    wait_until,
)
from tests.integration.gateway.consul import ConsulServer, running

EXTENDED_INPUTS = [
    "moe_gateway/routing/**", "hearth/cluster/watch.py", "hearth/cluster/consul.py",
]  # fmt: skip

ALL = 'service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }'
NO_NODES = 'service_prefix "" { policy = "read" }'
FIRST_ONLY = 'service "llama-expert-first" { policy = "read" } node_prefix "" { policy = "read" }'
NOTHING = 'key "x" { policy = "read" }'
EXPERTS = "/api/experts"
NEEDS = "it needs a policy with service:read and node:read"


class House:
    """Two experts that a closed Consul knows, and a gateway whose token a test changes."""

    def __init__(self, lab: Lab, consul: ConsulServer, folder: Path, rules: str = ALL) -> None:
        self.consul = consul
        self.ports = {name: self._expert(lab, name) for name in ("first", "second")}
        self.token = consul.grant(rules)
        self.file = folder / "token"
        self.file.write_text(self.token["SecretID"])
        self.gateway = gateway_on(lab, folder, consul.url, consul_token_file=self.file)

    def _expert(self, lab: Lab, name: str) -> int:
        port = urlsplit(lab.serve(ScriptedModel(key=SERVICE_KEY).app)).port or 0
        self.consul.register(f"llama-expert-{name}", port, expert=name)
        return port

    def allow(self, rules: str) -> None:
        """From now on the gateway's token has these."""
        self.consul.allow(self.token, rules)

    def stir(self) -> None:
        """Whoever waits for Consul is answered, and so by the rights of now."""
        self.consul.register("grafana", 1)
        self.consul.deregister("grafana", 1)
        for name, port in self.ports.items():
            for verdict in ("warn", "pass"):
                self.consul.judge(f"llama-expert-{name}", port, verdict)

    def notices(self) -> bool:
        """Whether the gateway says that it has to do without Consul."""
        self.stir()
        return bool(self.away)

    @property
    def away(self) -> str:
        return away_of(self.gateway)

    def serves(self, *names: str) -> bool:
        """Whether it answers for these, and for nobody else."""
        told = {name: self.status_of(name) for name in self.ports}
        return told == {name: 200 if name in names else 404 for name in self.ports}

    def status_of(self, name: str) -> int:
        return self.gateway.post(CHAT, json=chat("x", name)).status_code


def gateway_on(
    lab: Lab, folder: Path, url: str, consul_token_file: Path | None = None
) -> httpx2.Client:
    fields: Json = {"consul_url": url, "consul_token_file": consul_token_file}
    key = folder / "service_key"
    return lab.gateway(ready=False, expert_key_file=key, check_interval=1, **fields)


def away_of(gateway: httpx2.Client) -> str:
    """Why it has to do without Consul; empty: it need not. Its figures say the same."""
    before, figures, after = (gateway.get(path) for path in (EXPERTS, "/metrics", EXPERTS))
    told = [one.json()["consul"]["away"] or "" for one in (before, after)]
    if told[0] == told[1]:
        assert f"moe_gateway_consul_up {float(not told[0])}\n" in figures.text
    return str(told[1])


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[ConsulServer]:
    folder = tmp_path / "closed"
    folder.mkdir()
    with running(folder, acl=True) as consul:
        yield consul


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consul holds no question for longer than a second; it is half a minute."""
    monkeypatch.setattr(watch, "WAIT_SECONDS", 1.0)


def logged(capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    """How often the log says that Consul is away, and that it answers."""
    log = capsys.readouterr().out
    assert "instance_lost" not in log
    return log.count("consul_away"), log.count("consul_answers")


@pytest.mark.extended
@pytest.mark.parametrize(
    ("rules", "seen"), [(FIRST_ONLY, "second"), (NO_NODES, "or its nodes"), (NOTHING, "no service")]
)
def test_experts_that_the_token_may_not_read_any_more_stay(
    lab: Lab, closed: ConsulServer, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    rules: str, seen: str,
) -> None:  # fmt: skip
    """They work as before; who looks is told what the token lacks, and gets it back by that."""
    house = House(lab, closed, tmp_path)
    wait_until(lambda: house.serves("first", "second"))

    house.allow(rules)
    # Rights of the several queries end one after the other, so the first reason may be another.
    wait_until(lambda: house.notices() and seen in house.away)
    told = {house.away for _ in range(200)}
    kept = house.serves("first", "second")
    health = house.gateway.get("/health").status_code
    house.allow(ALL)
    wait_until(lambda: not house.away)

    assert [one for one in told if seen not in one or NEEDS not in one] == []
    assert (kept, health) == (True, 200)
    assert house.serves("first", "second")
    assert logged(capsys) == (1, 2)


def test_token_for_some_services_finds_those(
    lab: Lab, closed: ConsulServer, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    hasty: None,
) -> None:  # fmt: skip
    """It is no fault to have no more rights than one needs. More of them count without a restart,
    even while nothing else changes."""
    house = House(lab, closed, tmp_path, FIRST_ONLY)
    wait_until(lambda: house.serves("first"))
    before = house.away
    house.allow(ALL)
    wait_until(lambda: house.serves("first", "second"))

    assert before == ""
    assert logged(capsys) == (0, 1)


def test_expert_that_ends_is_forgotten_by_who_may_read_little(
    lab: Lab, closed: ConsulServer, tmp_path: Path
) -> None:
    """What is gone is told from what may not be seen."""
    house = House(lab, closed, tmp_path, FIRST_ONLY)
    wait_until(lambda: house.serves("first"))

    house.consul.deregister("llama-expert-first", house.ports["first"])

    wait_until(lambda: instances_of(house.gateway) == [])
    assert house.status_of("first") == 404


def test_token_without_nodes_is_told_what_it_lacks(
    lab: Lab, closed: ConsulServer, tmp_path: Path
) -> None:
    """Consul lists the services then, and no instance of any."""
    house = House(lab, closed, tmp_path, NO_NODES)

    wait_until(lambda: NEEDS in str(house.gateway.get("/health").json()["reasons"]))
    house.allow(ALL)
    wait_until(lambda: house.serves("first", "second"))

    assert house.away == ""
    assert house.gateway.get("/health").status_code == 200


def test_token_that_is_revoked_takes_nobody_along(
    lab: Lab, closed: ConsulServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new one in the same file counts without a restart."""
    house = House(lab, closed, tmp_path)
    wait_until(lambda: house.serves("first", "second"))

    closed.revoke(house.token)
    house.stir()
    wait_until(lambda: "403" in house.away)
    told, kept = house.away, house.serves("first", "second")
    house.file.write_text(closed.token(ALL))
    wait_until(lambda: not house.away)

    assert "does not know the token" in told
    assert kept
    assert house.serves("first", "second")
    assert logged(capsys) == (1, 2)


class Between:
    """A proxy in front of Consul, which answers something else while a test says so."""

    def __init__(self, stack: ExitStack, consul: ConsulServer) -> None:
        self._consul = consul.ports["http"]
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.instead: bytes | None = None
        self._lines: set[socket.socket] = set()
        threading.Thread(target=self._serve, daemon=True).start()

    def say(self, instead: bytes | None) -> None:
        """From now on; who waits for Consul at present loses the connection."""
        self.instead = instead
        for line in list(self._lines):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                self._lines.add(line)
                threading.Thread(target=self._pass, args=[line], daemon=True).start()

    def _pass(self, line: socket.socket) -> None:
        with suppress(OSError), line:
            if (instead := self.instead) is not None:  # A test changes it at any time.
                line.recv(65536)
                line.sendall(instead)
                if instead:
                    return
                line.recv(65536)  # Until it is given up.
            with socket.create_connection(("127.0.0.1", self._consul)) as consul:
                self._lines.add(consul)
                back = threading.Thread(target=_copy, args=[consul, line], daemon=True)
                back.start()
                _copy(line, consul)
                back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def page(status: str, body: str, *lines: str) -> bytes:
    told = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *lines)
    return "\r\n".join((*told, "", body)).encode()


INDEX = "X-Consul-Index: 7"
NONSENSE = {
    "500": (page("500 Oops", "rpc error: No cluster leader"), "HTTP 500: rpc error"),
    "403": (page("403 Forbidden", "Permission denied"), NEEDS),
    "page": (page("200 OK", "<html>Log in</html>", "Content-Type: text/html"), "not Consul"),
    "JSON of another": (page("200 OK", '{"error": "no such thing"}'), "not Consul"),
    "entries of another": (page("200 OK", '[{"Node": 1}]', INDEX), "not Consul"),
    "words of another": (page("200 OK", '"hello"', INDEX), "not Consul"),
    "no HTTP": (b"SSH-2.0-dropbear\r\n", ""),
    "half an answer": (page("200 OK", "{" * 99)[:-50], ""),
}


@pytest.mark.extended
@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_from_the_agents_address_takes_nobody_along(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """An agent without a leader, a proxy's page, another program at that port after a restart."""
    (tmp_path / "open").mkdir()
    with running(tmp_path / "open") as consul, ExitStack() as stack:
        between = Between(stack, consul)
        port = urlsplit(lab.serve(ScriptedModel(key=SERVICE_KEY).app)).port or 0
        consul.register("llama-expert-first", port, expert="first")
        gateway = gateway_on(lab, tmp_path, between.url)
        wait_until(lambda: gateway.post(CHAT, json=chat("x", "first")).status_code == 200)
        instead, words = NONSENSE[what]
        between.say(instead)
        wait_until(lambda: bool(away := away_of(gateway)) and words in away)
        told = {away_of(gateway) for _ in range(50)}
        kept = gateway.post(CHAT, json=chat("x", "first")).status_code
        between.say(None)
        wait_until(lambda: not away_of(gateway))
        consul.register("llama-expert-second", port, expert="second")
        wait_until(lambda: gateway.post(CHAT, json=chat("x", "second")).status_code == 200)
        ways = logged(capsys)

    assert [one for one in told if words not in one] == []
    assert kept == 200
    assert ways == (1, 2)


def test_agent_that_hangs_is_noticed_and_comes_back(
    lab: Lab, closed: ConsulServer, tmp_path: Path, hasty: None
) -> None:
    """A process that is stopped keeps its connections, and says nothing on them."""
    house = House(lab, closed, tmp_path)
    wait_until(lambda: house.serves("first", "second"))
    closed.halt()
    wait_until(lambda: bool(house.away), 120)
    kept = house.serves("first", "second")
    closed.go_on()
    wait_until(lambda: not house.away)

    assert kept
