"""The power manager as a job of a real Nomad, beside a gateway that uses it."""

import json
import ssl
import sys
from functools import partial
from getpass import getuser

import httpx2
import pytest

from tests.integration.jobs.conftest import JOBS, KEYS, Cluster
from tests.ports import free_ports

pytestmark = [pytest.mark.nomad, pytest.mark.timeout(300)]


def test_power_manager_runs_with_the_machines_of_the_inventory(cluster: Cluster) -> None:
    """The role gives it the machines as JSON, and the gateway its address and key."""
    manager, gateway, closed = free_ports(3)
    machine = {"name": "rack", "mac": "02:00:00:aa:bb:cc", "address": "127.0.0.1/8",
               "port": closed, "wakeable": True}  # fmt: skip
    cluster.put_keys("power-manager", "service_key", "api_key")
    cluster.put_keys("moe-gateway", *KEYS)
    variables = {
        "machine": "machine1", "user": getuser(), "python": sys.executable, "port": manager,
        "tls_dir": cluster.tls, "state_dir": cluster.state, "machines": json.dumps([machine]),
        "settings": json.dumps({"check_seconds": "0.1"}), "version": 1,
    }  # fmt: skip
    chosen = [f"-var={name}={value}" for name, value in variables.items()]
    address = f"https://127.0.0.1:{manager}"

    cluster.run_all(
        partial(cluster.command, "job", "run", *chosen, str(JOBS / "power-manager.nomad.hcl")),
        partial(cluster.run, "moe-gateway", port=gateway, version=1, power_url=address),
    )

    trusted = ssl.create_default_context(cafile=str(cluster.tls / "ca.pem"))
    headers = {"authorization": f"Bearer {KEYS['api_key']}"}
    with httpx2.Client(verify=trusted, headers=headers, trust_env=False) as client:
        cluster.until(lambda: client.get(f"{address}/api/machines").json()[0]["state"] == "awake")
        report = client.get(f"{address}/api/machines/rack").json()
    assert (report["name"], report["mac"], report["address"]) == (
        "rack", "02:00:00:aa:bb:cc", "127.0.0.1",
    )  # fmt: skip
    found = httpx2.get(f"{cluster.consul.url}/v1/health/service/power-manager", trust_env=False)
    assert [one["Service"]["Port"] for one in found.json()] == [manager]
