"""A real Consul agent on free ports of loopback, and what a service does with it."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hearth.cluster.binaries import find
from hearth.settings import Settings
from tests.ports import free_ports

Json = dict[str, Any]
ROOT_TOKEN = "5ec2e7b5-0000-4000-8000-000000000001"
"""Of an agent that a test starts; nobody else ever sees it."""

PORTS = ("http", "serf_lan", "serf_wan", "server", "dns", "grpc")


class ConsulServer:
    """One agent in development mode: a cluster of its own, which keeps nothing."""

    def __init__(self, folder: Path, *, acl: bool = False) -> None:
        self.folder, self.acl = folder, acl
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.url = f"http://127.0.0.1:{self.ports['http']}"
        headers = {"x-consul-token": ROOT_TOKEN} if acl else {}
        self.api = httpx2.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return when it has a leader and its own agent is in the catalogue."""
        program = find("consul")
        if program is None:
            reason = "There is no Consul: python -m tests.binaries.consul builds it"
            (pytest.fail if Settings.load().test_strict else pytest.skip)(reason)
        settings: Json = {
            "ports": {**self.ports, "dns": -1, "grpc": -1},
            "node_name": "machine1",
            "bind_addr": "127.0.0.1",
            "disable_update_check": True,
        }
        if self.acl:
            tokens = {"initial_management": ROOT_TOKEN, "agent": ROOT_TOKEN}
            settings["acl"] = {"enabled": True, "default_policy": "deny", "tokens": tokens}
        file = self.folder / "consul.json"
        file.write_text(json.dumps(settings), encoding="utf-8")
        with (self.folder / "consul.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "agent", "-dev", f"-config-file={file}"], stdout=log, stderr=log
            )
        ends = time.monotonic() + 60
        while not self._is_ready():
            if time.monotonic() > ends or self._process.poll() is not None:
                raise RuntimeError((self.folder / "consul.log").read_text()[-3000:])
            time.sleep(0.05)

    def stop(self) -> None:
        """At once, as a machine that loses its power."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def halt(self) -> None:
        """It stands still, as on a machine that swaps, until it may `go_on`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def register(self, name: str, port: int, *, state: str = "passing", **meta: str) -> None:
        """As a launcher does, with a check whose state the test decides: see `judge`."""
        body = {
            "ID": f"{name}-{port}",
            "Name": name,
            "Address": "127.0.0.1",
            "Port": port,
            "Meta": meta,
            "Check": {"CheckID": f"check-{name}-{port}", "TTL": "1h", "Status": state},
        }
        self.api.put("/v1/agent/service/register", json=body).raise_for_status()

    def judge(self, name: str, port: int, verdict: str, note: str = "") -> None:
        """`verdict` is pass, warn or fail."""
        path = f"/v1/agent/check/{verdict}/check-{name}-{port}"
        self.api.put(path, params={"note": note}).raise_for_status()

    def deregister(self, name: str, port: int) -> None:
        self.api.put(f"/v1/agent/service/deregister/{name}-{port}").raise_for_status()

    def token(self, rules: str) -> str:
        """A token with these rules."""
        return self.grant(rules)["SecretID"]

    def grant(self, rules: str) -> dict[str, str]:
        """The same, with what `allow` and `revoke` need."""
        policy = {"Name": f"p{time.monotonic_ns()}", "Rules": rules}
        made = self.api.put("/v1/acl/policy", json=policy).raise_for_status().json()
        token = {"Policies": [{"ID": made["ID"]}]}
        found = self.api.put("/v1/acl/token", json=token).raise_for_status().json()
        return {"Policy": made["ID"], **policy, **found}

    def allow(self, granted: dict[str, str], rules: str) -> None:
        """From now on the token has these rules."""
        body = {"Name": granted["Name"], "Rules": rules}
        self.api.put(f"/v1/acl/policy/{granted['Policy']}", json=body).raise_for_status()

    def revoke(self, granted: dict[str, str]) -> None:
        """From now on Consul does not know the token."""
        self.api.delete(f"/v1/acl/token/{granted['AccessorID']}").raise_for_status()

    def _is_ready(self) -> bool:
        try:
            return bool(self.api.get("/v1/health/service/consul").raise_for_status().json())
        except httpx2.HTTPError:
            return False


@contextmanager
def running(folder: Path, *, acl: bool = False) -> Iterator[ConsulServer]:
    """An agent for the time of the block."""
    server = ConsulServer(folder, acl=acl)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        server.api.close()
