"""The keys that people make, where the gateway is a job of a real Nomad."""

import json
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from hearth.cli import build_cli
from tests.integration.jobs.conftest import KEYS, Cluster, Json
from tests.ports import free_ports

EXTENDED_INPUTS = [
    "nomad_jobs/moe-gateway.nomad.hcl",
    "ansible/roles/moe_gateway/**",
    "moe_gateway/keys/*",
    "hearth/cluster/jobs/*",
    "tests/integration/jobs/conftest.py",
]

pytestmark = [pytest.mark.nomad, pytest.mark.timeout(300)]

Keys = Callable[..., Any]
"""The ended command: `exit_code`, `output`."""


@pytest.fixture(scope="module")
def release(cluster: Cluster) -> Callable[[int], str]:
    """Run this version of the gateway, with what a cluster of several machines says."""
    cluster.put_keys("moe-gateway", *KEYS)
    [port] = free_ports(1)
    return partial(
        _release, cluster, port=port, keys_machine="machine1", state_dir=cluster.state,
        count=2, canaries=1,
    )  # fmt: skip


def _release(cluster: Cluster, version: int, **variables: object) -> str:
    cluster.run("moe-gateway", version=version, **variables)
    return f"https://127.0.0.1:{variables['port']}"


@pytest.fixture(scope="module")
def gateway(release: Callable[[int], str]) -> str:
    return release(1)


@pytest.fixture
def keys(cluster: Cluster, gateway: str) -> Iterator[Keys]:
    """`hearth keys`, from a desk: with the house's own key and the authority of the cluster."""
    file = cluster.folder / "admin"
    file.write_text(KEYS["api_key"])
    where = ["--gateway", gateway, "--key-file", str(file)]
    where += ["--ca-file", str(cluster.tls / "ca.pem")]
    yield lambda *words: CliRunner().invoke(build_cli(), ["keys", *words, *where])
    file.unlink()


def models(cluster: Cluster, gateway: str, key: str) -> int:
    """The status of a question that any open key may ask."""
    trusted = ssl.create_default_context(cafile=str(cluster.tls / "ca.pem"))
    headers = {"authorization": f"Bearer {key}"}
    with httpx2.Client(base_url=gateway, verify=trusted, trust_env=False, timeout=30) as client:
        return client.get("/v1/models", headers=headers).status_code


@pytest.mark.extended
def test_keys_outlive_a_new_version_of_the_gateway(
    cluster: Cluster, release: Callable[[int], str], gateway: str, keys: Keys
) -> None:
    """The new one needs the old one's port and file, so it comes after it: one that had to be
    healthy beside it would wait for ever."""
    made = keys("add", "tablet", "--requests-per-minute", "99").output.strip()
    closed = keys("add", "guest").output.strip()
    assert keys("revoke", "guest").exit_code == 0
    before = [models(cluster, gateway, key) for key in (made, closed)]

    release(2)

    assert before == [200, 401]
    assert [models(cluster, gateway, key) for key in (made, closed)] == before
    rows: list[Json] = json.loads(keys("list", "--json").output)["keys"]
    found = {row["name"]: (row["requests_per_minute"], bool(row["revoked"])) for row in rows}
    assert found == {"tablet": (99, False), "guest": (None, True)}


def test_gateway_with_keys_runs_once_and_where_they_are(cluster: Cluster, gateway: str) -> None:
    """A second one would count for itself what everybody may use."""
    assert gateway
    allocations = [one for one in cluster.ask("allocations") if one["JobID"] == "moe-gateway"]
    running = [one for one in allocations if one["DesiredStatus"] == "run"]

    assert [one["NodeName"] for one in running] == ["machine1"]
    assert (cluster.state / "keys.db").stat().st_mode & 0o077 == 0
