"""A real Consul and a real Nomad on loopback: the smallest cluster that runs our jobs."""

import getpass
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hearth.cluster.binaries import find
from hearth.cluster.certificates import issue, make_authority
from tests.integration.gateway.consul import ConsulServer, running
from tests.ports import free_ports

JOBS = Path(__file__).parents[3] / "nomad_jobs"
KEYS = {
    "api_key": "sk-hearth-of-people",
    "service_key": "sk-hearth-of-services",
    "expert_key": "sk-hearth-of-experts",
}
OVER = {"complete", "failed", "lost"}
Json = dict[str, Any]


@dataclass
class Cluster:
    """One machine that is server and client; `run` submits a job of ours to it."""

    folder: Path
    consul: ConsulServer
    nomad: Path
    ports: list[int]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    @property
    def tls(self) -> Path:
        return self.folder / "tls"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def environment(self) -> dict[str, str]:
        """Of the agent and of the command; a CA that is set for one cloud stops the agent."""
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("AWS_", "NOMAD_"))}
        return {**kept, "NOMAD_ADDR": self.address}

    def start(self) -> None:
        """Return when the machine takes jobs."""
        settings = self.folder / "nomad.json"
        settings.write_text(json.dumps(self._settings()), encoding="utf-8")
        with (self.folder / "nomad.log").open("wb") as log:
            command = [str(self.nomad), "agent", f"-config={settings}"]
            self.started.append(
                subprocess.Popen(command, stdout=log, stderr=log, env=self.environment)
            )
        self.until(lambda: [node["Status"] for node in self.ask("nodes")] == ["ready"], 120)

    def stop(self) -> None:
        """Stop what runs, then the agent."""
        for job in self.ask("jobs"):
            self.command("job", "stop", "-detach", job["ID"])
        self.until(lambda: {a["ClientStatus"] for a in self.ask("allocations")} <= OVER)
        # Each task's secrets are a file system of their own, which only Nomad takes away.
        self.command("system", "gc")
        self.until(lambda: str(self.folder) not in Path("/proc/mounts").read_text())
        for process in self.started:
            process.terminate()
            process.wait(120)

    def ask(self, what: str) -> list[Json]:
        try:
            answer = httpx2.get(f"{self.address}/v1/{what}", timeout=30, trust_env=False)
            found: list[Json] = answer.raise_for_status().json()
        except httpx2.HTTPError:
            return []
        return found

    def command(
        self, *arguments: str, given: str | None = None, codes: tuple[int, ...] = (0,)
    ) -> str:
        """What `nomad` prints; an exit code that is not expected fails the test with that."""
        ended = subprocess.run(
            [self.nomad, *arguments], env=self.environment, input=given, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert ended.returncode in codes, f"{ended.stdout}\n{self.evidence()}"
        return ended.stdout

    def run(self, job: str, **variables: object) -> str:
        """Submit a job and wait for its deployment."""
        consul = {"consul_url": self.consul.url, "consul_acl": "false"}
        return self.run_bare(job, **consul, **variables)

    def run_bare(self, job: str, **variables: object) -> str:
        """The same for a job that does not ask Consul itself."""
        own: Json = {
            "user": getpass.getuser(), "python": sys.executable, "tls_dir": self.tls,
            "drain_seconds": 3, **variables,
        }  # fmt: skip
        chosen = [f"-var={name}={value}" for name, value in own.items()]
        return self.command("job", "run", *chosen, str(JOBS / f"{job}.nomad.hcl"))

    def run_all(self, *runs: Callable[[], str]) -> None:
        """Submit several beside each other: each of them waits for a deployment."""
        with ThreadPoolExecutor() as together:
            for run in [together.submit(run) for run in runs]:
                run.result()

    def put_keys(self, job: str, *names: str) -> None:
        items = {"Items": {name: KEYS[name] for name in names}}
        self.command("var", "put", "-in=json", f"nomad/jobs/{job}", "-", given=json.dumps(items))

    def until(self, happened: Callable[[], bool], seconds: float = 120) -> None:
        ends = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < ends, self.evidence()
            time.sleep(0.1)

    def evidence(self) -> str:
        """What the tasks wrote, and the end of the agent's log."""
        found = sorted((self.folder / "data").glob("alloc/*/alloc/logs/*.std*"))
        logs = [log for log in found if log.is_file()]  # A running task has named pipes as well.
        told = [f"== {log.name}\n{log.read_text()[-3000:]}" for log in logs]
        return "\n".join([*told, (self.folder / "nomad.log").read_text()[-3000:]])

    def _settings(self) -> Json:
        http, rpc, serf = self.ports
        return {
            "name": "machine1",
            "data_dir": str(self.folder / "data"),
            "bind_addr": "127.0.0.1",
            "disable_update_check": True,
            "ports": {"http": http, "rpc": rpc, "serf": serf},
            "advertise": dict.fromkeys(("http", "rpc", "serf"), "127.0.0.1"),
            "server": {"enabled": True, "bootstrap_expect": 1},
            "client": {
                "enabled": True,
                "network_interface": "lo",
                "host_volume": {
                    "hearth-state": {"path": str(self.state)},
                    "hearth-tls": {"path": str(self.tls), "read_only": True},
                },
                "options": {"fingerprint.denylist": "env_aws,env_azure,env_gce,env_digitalocean"},
            },
            "plugin": [{"raw_exec": [{"config": {"enabled": True}}]}],
            "consul": {"address": self.consul.url.removeprefix("http://")},
        }


@contextmanager
def cluster_in(folder: Path) -> Iterator[Cluster]:
    """A cluster for the time of the block."""
    nomad = find("nomad")
    assert nomad is not None, "marker nomad: the ring is left out without a binary"
    for name in ("consul", "state", "tls"):
        (folder / name).mkdir()
    authority = make_authority("Hearth test")
    pair = issue(authority, "machine1", ["127.0.0.1", "localhost"])
    for name, text in (
        ("ca.pem", authority.certificate),
        ("service.pem", pair.certificate),
        ("service-key.pem", pair.key),
    ):
        (folder / "tls" / name).write_text(text, encoding="ascii")
    with running(folder / "consul") as consul:
        cluster = Cluster(folder, consul, nomad, free_ports(3))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """In a folder with a short name: the path of a unix socket has 107 bytes at most."""
    with (
        tempfile.TemporaryDirectory(prefix="hearth-") as folder,
        cluster_in(Path(folder)) as cluster,
    ):
        yield cluster
