"""Consul Connect, on which decision 0201 rests: what it would give, on the Consul that we have."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx2
import pytest

from hearth.cluster import binaries
from hearth.cluster.consul import Consul
from tests.integration.cluster.agents import Agent, consul_agent, wait_for
from tests.ports import free_ports


class Hello(BaseHTTPRequestHandler):
    """A service that speaks no TLS and knows no caller."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[tuple[Agent, str]]:
    """A service behind a proxy of the mesh, and where a client's proxy offers it."""
    target, sidecar, upstream = free_ports(3)
    with ExitStack() as stack:
        agent = stack.enter_context(consul_agent(tmp_path, acl=False, connect=True))
        stack.enter_context(_serving(target))
        with Consul(agent.endpoint) as consul:
            for name, port, proxy in (("web", target, {"Port": sidecar}), ("desk", 1, {})):
                body = {"Name": name, "Port": port, "Connect": {"SidecarService": proxy}}
                consul.session.call("PUT", "agent/service/register", body)
        for words in (
            ["-sidecar-for", "web"],
            ["-service", "desk", "-upstream", f"web:{upstream}"],
        ):
            stack.enter_context(_proxy(agent, words))
        wait_for(lambda: _answer(f"http://127.0.0.1:{upstream}") == "hello", agent)
        yield agent, f"http://127.0.0.1:{upstream}"


@pytest.mark.proves("004-44")
def test_callers_of_a_mesh_are_let_in_by_their_name(mesh: tuple[Agent, str]) -> None:
    """The one thing that we would gain: who may call whom is said in Consul, not by a key."""
    agent, url = mesh
    with Consul(agent.endpoint) as consul:
        rule = {"source": "desk", "destination": "web"}
        call = consul.session.call
        call("PUT", "connect/intentions/exact", {"Action": "deny"}, params=rule)
        wait_for(lambda: _answer(url) is None, agent)
        call("DELETE", "connect/intentions/exact", params=rule)
    wait_for(lambda: _answer(url) == "hello", agent)
    assert _answer(url) == "hello"


def _answer(url: str) -> str | None:
    """None when the connection is refused or cut."""
    try:
        return httpx2.get(url, timeout=5, trust_env=False).text
    except httpx2.TransportError:
        return None


@contextmanager
def _serving(port: int) -> Iterator[None]:
    server = HTTPServer(("127.0.0.1", port), Hello)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def _proxy(agent: Agent, words: list[str]) -> Iterator[None]:
    program = binaries.find("consul")
    assert program is not None
    environment = os.environ | {
        "CONSUL_HTTP_ADDR": agent.endpoint.url, "CONSUL_CACERT": str(agent.endpoint.ca_file),
    }  # fmt: skip
    log = agent.log.with_name(f"proxy{words[1]}.log").open("wb")
    with log, subprocess.Popen(
        [program, "connect", "proxy", *words], env=environment, stdout=log, stderr=log
    ) as process:  # fmt: skip
        try:
            yield
        finally:
            process.terminate()
