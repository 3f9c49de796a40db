"""A real Consul and a real Nomad in development mode, with telemetry as the roles set it."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

from hearth.cluster.binaries import Program, find
from hearth.cluster.jobs.deploy import Source
from hearth.settings import Settings
from tests.integration.local.conftest import wait_for
from tests.ports import free_ports

NODE = "machine1"
Json = dict[str, Any]
CLOUDS = "env_aws,env_gce,env_azure,env_digitalocean"


def needed(name: Program) -> Path:
    """The program, or the test does not run here."""
    found = find(name)
    if found is None:
        reason = f"There is no {name}: set HEARTH_{name.upper()}_BINARY"
        (pytest.fail if Settings.load().test_strict else pytest.skip)(reason)
    return Path(str(found))


class Consul:
    """One agent in development mode: a cluster of its own, which keeps nothing."""

    def __init__(self, folder: Path) -> None:
        http, lan, wan, server = free_ports(4)
        self.url, self.port, self.folder = f"http://127.0.0.1:{http}", http, folder
        self._settings: Json = {
            "ports": {
                "http": http, "serf_lan": lan, "serf_wan": wan, "server": server,
                "dns": -1, "grpc": -1,
            },
            "node_name": NODE,
            "bind_addr": "127.0.0.1",
            "disable_update_check": True,
            "telemetry": {"prometheus_retention_time": "60s", "disable_hostname": True},
        }  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        file = self.folder / "consul.json"
        file.write_text(json.dumps(self._settings), encoding="utf-8")
        with (self.folder / "consul.log").open("wb") as log:
            self.process = subprocess.Popen(
                [needed("consul"), "agent", "-dev", f"-config-file={file}"], stdout=log, stderr=log
            )
        with stopped_on_failure(self):
            self.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        end(self.process)
        self.process = None

    def wait(self) -> None:
        wait_for(partial(answer, f"{self.url}/v1/health/service/consul"), "Consul")

    def register(self, name: str, port: int, *tags: str, **meta: str) -> None:
        body = {"Name": name, "Port": port, "Tags": tags, "Meta": meta, "Address": "127.0.0.1"}
        url = f"{self.url}/v1/agent/service/register"
        httpx2.put(url, json=body, trust_env=False, timeout=60).raise_for_status()

    def deregister(self, name: str) -> None:
        url = f"{self.url}/v1/agent/service/deregister/{name}"
        httpx2.put(url, trust_env=False, timeout=60).raise_for_status()

    def instances(self, name: str) -> list[Json]:
        found: list[Json] = answer(f"{self.url}/v1/catalog/service/{name}") or []
        return found


class Nomad:
    """One agent, server and client, that registers its services in that Consul."""

    def __init__(self, folder: Path, consul: Consul) -> None:
        self.folder, self.consul = folder, consul
        self.http, self._rpc, self._serf = free_ports(3)
        self.url = f"http://127.0.0.1:{self.http}"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        file = self.folder / "nomad.json"
        settings: Json = {
            "name": NODE,
            "ports": {"http": self.http, "rpc": self._rpc, "serf": self._serf},
            "disable_update_check": True,
            # As the role sets it; in JSON, Nomad takes this block only as a list.
            "server": [{"default_scheduler_config": [{"memory_oversubscription_enabled": True}]}],
            "consul": {"address": self.consul.url.removeprefix("http://")},
            "client": {
                "options": {"fingerprint.denylist": CLOUDS},
                "meta": {"power_class": "always_on"},
            },
            "plugin": {"raw_exec": {"config": {"enabled": True}}},
            "telemetry": {
                "prometheus_metrics": True, "publish_allocation_metrics": True,
                "publish_node_metrics": True, "disable_hostname": True,
            },
        }  # fmt: skip
        file.write_text(json.dumps(settings), encoding="utf-8")
        with (self.folder / "nomad.log").open("wb") as log:
            self.process = subprocess.Popen(
                [needed("nomad"), "agent", "-dev", f"-config={file}"], stdout=log, stderr=log
            )
        with stopped_on_failure(self):
            wait_for(lambda: self.nodes() == ["ready"], "Nomad's client")
        return self

    def __exit__(self, *_: object) -> None:
        for job in answer(f"{self.url}/v1/jobs") or []:
            self.stop_job(job["ID"])
        wait_for(lambda: not self.running(), "all jobs are stopped")
        self.stop()

    def stop(self) -> None:
        end(self.process)
        self.process = None

    def nodes(self) -> list[str]:
        return [node["Status"] for node in answer(f"{self.url}/v1/nodes") or []]

    def running(self) -> list[str]:
        """The jobs that have an allocation now."""
        found = answer(f"{self.url}/v1/allocations") or []
        return [one["JobID"] for one in found if one["ClientStatus"] in ("pending", "running")]

    def put_variable(self, path: str, **items: str) -> None:
        url, body = f"{self.url}/v1/var/{path}", {"Path": path, "Items": items}
        httpx2.put(url, json=body, trust_env=False, timeout=60).raise_for_status()

    def parse(self, file: Path, **variables: object) -> Json:
        """The job of a file, as Nomad reads it with these variables."""
        return self._parse(file.read_text(encoding="utf-8"), variables)

    def complaints(self, job: Json) -> list[str]:
        """What Nomad finds wrong with a job."""
        body = {"Job": job}
        found = httpx2.post(f"{self.url}/v1/validate/job", json=body, trust_env=False, timeout=60)
        answered = found.raise_for_status().json()
        return [*(answered["ValidationErrors"] or []), *filter(None, [answered["Warnings"]])]

    def run(self, file: Path, **variables: object) -> None:
        """Register the job of a file and wait until its allocation runs."""
        self._register(self.parse(file, **variables))

    def run_text(self, text: str) -> None:
        self._register(self._parse(text, {}))

    def stop_job(self, job: str) -> None:
        url = f"{self.url}/v1/job/{job}"
        httpx2.delete(url, trust_env=False, timeout=60).raise_for_status()

    def _parse(self, text: str, variables: Mapping[str, object]) -> Json:
        values = Source("the job", text, variables).values()
        body = {"JobHCL": text, "Variables": values, "Canonicalize": True}
        found = httpx2.post(f"{self.url}/v1/jobs/parse", json=body, trust_env=False, timeout=60)
        assert found.status_code == 200, found.text
        job: Json = found.json()
        return job

    def _register(self, job: Json) -> None:
        found = httpx2.post(f"{self.url}/v1/jobs", json={"Job": job}, trust_env=False, timeout=60)
        assert found.status_code == 200, found.text
        wait_for(partial(self._runs, job["ID"]), f"{job['ID']} runs")

    def _runs(self, job: str) -> bool:
        found = answer(f"{self.url}/v1/job/{job}/allocations") or []
        assert not any(one["ClientStatus"] == "failed" for one in found), found
        return any(one["ClientStatus"] == "running" for one in found)


@contextmanager
def stopped_on_failure(agent: Consul | Nomad) -> Iterator[None]:
    """One that did not come up is not left behind, and its log says why it did not."""
    try:
        yield
    except BaseException as error:
        agent.stop()
        (log,) = agent.folder.glob("*.log")
        error.add_note(log.read_text(encoding="utf-8", errors="replace")[-3000:])
        raise


def end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.terminate()
        process.wait(60)


def answer(url: str) -> Any:
    """What a GET gives; None while nobody answers or there is no leader."""
    try:
        found = httpx2.get(url, timeout=30, trust_env=False)
    except httpx2.TransportError:
        return None
    return found.json() if found.status_code == 200 else None
