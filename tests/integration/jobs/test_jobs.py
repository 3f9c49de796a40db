"""Gateway and agent as jobs of a real Nomad, found through a real Consul, with TLS."""

import json
import ssl
from collections.abc import Iterator
from functools import partial
from urllib.parse import urlsplit

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.conftest import served
from tests.integration.jobs.conftest import JOBS, KEYS, Cluster, Json
from tests.ports import free_ports

pytestmark = [pytest.mark.nomad, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def expert(cluster: Cluster) -> Iterator[ScriptedModel]:
    """A scripted expert that has told Consul of itself, as a launcher does."""
    model = ScriptedModel("scripted-135m", key=KEYS["expert_key"])
    with served(model.app) as address:
        cluster.consul.register(
            "llama-expert-small", urlsplit(address).port or 0, expert="small",
            model="scripted-135m", model_reason="big-7b does not fit",
        )  # fmt: skip
        yield model


@pytest.fixture(scope="module")
def ports(cluster: Cluster, expert: ScriptedModel) -> dict[str, int]:
    """Both jobs run; the port of each."""
    ports = dict(zip(("moe-gateway", "pipecatapp"), free_ports(2), strict=True))
    cluster.put_keys("moe-gateway", *KEYS)
    cluster.put_keys("pipecatapp", "api_key", "service_key")
    more = json.dumps({"default_model": "small"})
    cluster.run_all(
        partial(cluster.run, "moe-gateway", port=ports["moe-gateway"], version=1, settings=more),
        partial(
            cluster.run, "pipecatapp", port=ports["pipecatapp"], version=1, driver="raw_exec",
            machine="machine1", state_dir=cluster.state,
            links=json.dumps({"Nomad": f"{cluster.address}/ui"}),
        ),
    )  # fmt: skip
    return ports


def client(cluster: Cluster, port: int) -> httpx2.Client:
    return httpx2.Client(
        base_url=f"https://127.0.0.1:{port}",
        headers={"authorization": f"Bearer {KEYS['api_key']}"},
        verify=ssl.create_default_context(cafile=str(cluster.tls / "ca.pem")),
        timeout=120, trust_env=False,
    )  # fmt: skip


def ask(cluster: Cluster, port: int, model: str) -> httpx2.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    with client(cluster, port) as caller:
        return caller.post("/v1/chat/completions", json=body)


@pytest.mark.parametrize("job", ["moe-gateway", "pipecatapp"])
def test_job_is_valid_for_the_real_nomad(cluster: Cluster, job: str) -> None:
    """Driver settings are checked by the agent only, so the file alone proves little."""
    told = cluster.command("job", "validate", str(JOBS / f"{job}.nomad.hcl"))

    assert "Job validation successful" in told
    assert "not validated" not in told


def test_question_crosses_gateway_agent_and_expert(cluster: Cluster, ports: dict[str, int]) -> None:
    """The whole way of a sentence: gateway, agent, gateway again, expert; each found in Consul."""
    gateway = ports["moe-gateway"]

    with client(cluster, gateway) as caller:
        cluster.until(lambda: "agent" in [m["id"] for m in caller.get("/v1/models").json()["data"]])
    small, agent = ask(cluster, gateway, "small"), ask(cluster, gateway, "agent")

    assert small.status_code == 200
    assert small.headers["x-hearth-model"] == "scripted-135m"
    assert agent.status_code == 200, agent.text
    assert agent.json()["choices"][0]["message"]["content"]


def test_settings_of_the_gateway_reach_it(cluster: Cluster, ports: dict[str, int]) -> None:
    """All that can be set on one machine can be set on a cluster, by its name."""
    answer = ask(cluster, ports["moe-gateway"], "gpt-4o")

    assert answer.headers["x-hearth-route"].endswith("; the default for a name that nobody has")


def test_status_tells_machines_from_nomad_and_services_from_consul(
    cluster: Cluster, ports: dict[str, int]
) -> None:
    """By the job's own identity at the socket that Nomad lays into it: no token is handed out."""
    with client(cluster, ports["pipecatapp"]) as caller:
        cluster.until(lambda: bool(caller.get("/api/status").json()["experts"]))
        found: Json = caller.get("/api/status").json()

    assert found["unknown"] == []
    [machine] = found["machines"]
    assert (machine["name"], machine["state"], machine["healthy"]) == ("machine1", "ready", True)
    assert machine["cores"] >= 1
    assert machine["memory_mb"] > 100
    assert {"moe-gateway", "pipecatapp", "llama-expert-small"} <= set(machine["services"])
    [expert] = found["experts"]
    assert (expert["model"], expert["model_reason"]) == ("scripted-135m", "big-7b does not fit")
    assert found["links"]["Nomad"] == f"{cluster.address}/ui"


def test_one_click_of_the_job_writes_a_backup_and_another_shows_the_status(
    cluster: Cluster, ports: dict[str, int]
) -> None:
    """Whoever has only Nomad's page at hand can save the state before they touch anything."""
    action = ("action", "-job=pipecatapp", "-group=agent", "-task=agent")

    told = cluster.command(*action, "backup", given="")
    # On a busy machine a probe may be late, and then the status is shown as unhealthy.
    status = cluster.command(*action, "status", given="", codes=(0, 1))

    [file] = (cluster.state / "backups").glob("by-hand-*.tar.gz")
    assert f"The backup is in {file}" in " ".join(told.split())
    assert file.stat().st_mode & 0o077 == 0
    assert "scripted-135m" in status


def test_job_that_finds_no_place_is_shown(cluster: Cluster, ports: dict[str, int]) -> None:
    """It is in no catalogue, so a page that asks Consul alone would not miss it."""
    chosen = ["-var=machine=nowhere", "-var=driver=raw_exec", "-detach"]
    text = (JOBS / "pipecatapp.nomad.hcl").read_text().replace('job "pipecatapp"', 'job "homeless"')
    cluster.command("job", "run", *chosen, "-", given=text)

    with client(cluster, ports["pipecatapp"]) as caller:

        def homeless() -> list[Json]:
            return [s for s in caller.get("/api/status").json()["services"]
                    if s["name"] == "homeless"]  # fmt: skip

        # Until the scheduler has tried to place it, nobody knows that there is no place.
        waiting = "1 waiting for a machine with room"
        cluster.until(lambda: [one["detail"] for one in homeless()] == [waiting])
        [service] = homeless()
    cluster.command("job", "stop", "-purge", "homeless")

    assert not service["healthy"]


def test_state_outlives_a_new_version_of_the_agent(cluster: Cluster, ports: dict[str, int]) -> None:
    """The ledger lies on the volume, and the old one lets go of it before the new one comes."""
    assert ask(cluster, ports["pipecatapp"], "agent").status_code == 200
    with client(cluster, ports["pipecatapp"]) as caller:
        before = caller.get("/api/runs").json()

    cluster.run(
        "pipecatapp", port=ports["pipecatapp"], version=2, driver="raw_exec", machine="machine1",
        state_dir=cluster.state,
    )  # fmt: skip

    with client(cluster, ports["pipecatapp"]) as caller:
        after = caller.get("/api/runs").json()
    assert before["runs"]
    assert [run["id"] for run in after["runs"]] == [run["id"] for run in before["runs"]]


def test_changed_key_reaches_the_gateway(cluster: Cluster, ports: dict[str, int]) -> None:
    """A key that leaked is replaced in one place."""
    new = {**KEYS, "api_key": "sk-hearth-of-people-renewed"}
    items = json.dumps({"Items": new})
    cluster.command("var", "put", "-force", "-in=json", "nomad/jobs/moe-gateway", "-", given=items)

    with client(cluster, ports["moe-gateway"]) as caller:
        caller.headers["authorization"] = f"Bearer {new['api_key']}"

        def accepted() -> bool:
            try:
                return caller.get("/v1/models").status_code == 200
            except httpx2.TransportError:
                return False

        cluster.until(accepted)
        caller.headers["authorization"] = f"Bearer {KEYS['api_key']}"
        old = caller.get("/v1/models")
    assert old.status_code == 401
