"""The jobs on a real Nomad with a real Consul: Prometheus finds what there is by itself."""

import getpass
import json
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.conftest import served
from tests.dashboards.__main__ import FOLDER
from tests.integration.local.conftest import wait_for
from tests.integration.monitoring.agents import Consul, Nomad
from tests.integration.monitoring.conftest import program
from tests.integration.monitoring.prometheus import ROLE, Asking, Values, configuration
from tests.ports import free_ports
from tests.rules.tree import ROOT

pytestmark = pytest.mark.nomad
JOBS = ROOT / "nomad_jobs"
NAP = """
job "nap" {
  group "nap" {
    task "nap" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["600"]
      }
    }
  }
}
"""


@pytest.fixture(scope="module")
def consul(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consul]:
    with Consul(tmp_path_factory.mktemp("consul")) as consul:
        yield consul


@pytest.fixture(scope="module")
def nomad(consul: Consul, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nomad]:
    with Nomad(tmp_path_factory.mktemp("nomad"), consul) as nomad:
        nomad.put_variable("nomad/jobs/prometheus", expert_key="the-experts-key")
        yield nomad


@pytest.fixture(scope="module")
def services(consul: Consul) -> Iterator[None]:
    """A service at a path of its own, and an expert that wants its key."""

    def plain(request: Request) -> PlainTextResponse:
        return PlainTextResponse("oven_degrees 180\n")

    async def locked(request: Request) -> PlainTextResponse:
        shown = request.headers.get("authorization")
        known = shown == "Bearer the-experts-key"
        return PlainTextResponse("llamacpp:requests_processing 2\n", 200 if known else 401)

    oven, expert = (
        Starlette(routes=[Route("/heat", plain)]),
        Starlette(routes=[Route("/metrics", locked)]),
    )
    with served(oven) as oven_url, served(expert) as expert_url:
        port = int(oven_url.rpartition(":")[2])
        consul.register("oven", port, "metrics", metrics_path="/heat")
        consul.register("kettle", port)
        port = int(expert_url.rpartition(":")[2])
        facts = {"expert": "small", "model": "qwen3-4b"}
        consul.register("llama-expert-small", port, "expert", "metrics", **facts)
        yield


@pytest.fixture(scope="module")
def asking(
    nomad: Nomad, consul: Consul, services: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Asking]:
    """Both jobs run; questions to that Prometheus."""
    port, exporter_port = free_ports(2)
    text = configuration(
        prometheus_tls=False, prometheus_acl=False, prometheus_ca_file="",
        prometheus_cluster="test", prometheus_scrape_interval="1s",
    )  # fmt: skip
    nomad.run(
        JOBS / "prometheus.nomad.hcl",
        program=program("prometheus"), user=getpass.getuser(), port=port,
        data_dir=str(tmp_path_factory.mktemp("data")), consul_port=consul.port, config=text,
        rules=(ROLE / "files" / "rules.yaml").read_text(encoding="utf-8"),
    )  # fmt: skip
    nomad.run(
        JOBS / "node-exporter.nomad.hcl",
        program=program("prometheus-node-exporter"), user=getpass.getuser(), port=exporter_port,
    )  # fmt: skip
    asking = Asking(f"127.0.0.1:{port}")
    try:
        wait_for(lambda: asking.ask("up"), "Prometheus answers")
        wait_for(lambda: len(asking.ask("up == 1")) >= 6, f"all targets: {asking.ask('up')}")
        yield asking
    finally:
        asking.close()


def asked(asking: Asking, expression: str) -> Values:
    """What there is to see of it, once there is something."""
    return wait_for(lambda: asking.ask(expression), f"{expression} is there")


def test_prometheus_finds_every_tagged_service(asking: Asking) -> None:
    """Nobody lists targets: a service that carries the tag is watched, at its own path."""
    wanted = {"oven", "prometheus", "node-exporter", "llama-expert", "nomad", "consul"}

    def up_now() -> dict[str, dict[str, str]]:
        return {dict(row)["job"]: dict(row) for row in asking.ask("up == 1")}

    # One that is late for a second is down for that second.
    up = wait_for(lambda: found if set(found := up_now()) >= wanted else None, "all are up at once")

    assert set(up) == wanted
    assert {row["node"] for row in up.values()} == {"machine1"}
    assert list(asked(asking, "oven_degrees").values()) == [180.0]


def test_experts_are_asked_with_their_key_and_named_by_their_model(asking: Asking) -> None:
    """Without the key there is no queue to see; without the model nobody knows whose it is."""
    ((row, value),) = asked(asking, "llamacpp:requests_processing").items()

    assert value == 2
    assert dict(row)["expert"] == "small"
    assert dict(row)["model"] == "qwen3-4b"


def test_exporter_looks_for_nothing_that_is_not_there(asking: Asking) -> None:
    """A folder that only a distribution's package makes would be an error with each scrape."""
    collectors = {dict(row)["collector"] for row in asked(asking, "node_scrape_collector_success")}

    assert "textfile" not in collectors
    assert {"cpu", "filesystem", "meminfo"} <= collectors


def test_panels_of_nomad_show_what_runs(asking: Asking, nomad: Nomad) -> None:
    """The overview is looked at when jobs do not run: its panels must know them."""
    board = json.loads((FOLDER / "hearth-cluster.json").read_text(encoding="utf-8"))
    expressions = [
        target["expr"]
        for panel in board["panels"]
        for target in panel["targets"]
        if "nomad_" in target["expr"]
    ]
    values = {text: list(asked(asking, text).values()) for text in expressions}

    assert len(values) >= 7
    assert [text for text, found in values.items() if not found] == []
    for expression, value in (
        ("max(nomad_nomad_job_status_running)", 2.0),
        ("sum by (node) (nomad_client_allocations_running)", 2.0),
        ("max(nomad_nomad_autopilot_healthy)", 1.0),
    ):
        assert expression in values
        # Nomad counts in its own time.
        wait_for(
            lambda: list(asking.ask(expression).values()) == [value],  # noqa: B023
            f"{expression} is {value}: {values[expression]}",
        )


def test_job_that_comes_and_goes_moves_the_panel(asking: Asking, nomad: Nomad) -> None:
    """Figures of Nomad that stay the same would hide a job that is gone."""
    running = "sum by (node) (nomad_client_allocations_running)"
    before = asked(asking, running)
    nomad.run_text(NAP)

    wait_for(lambda: asking.ask(running) != before, "the panel shows the job", 120)
    nomad.stop_job("nap")
    wait_for(lambda: asking.ask(running) == before, "the panel shows that it is gone", 120)

    assert before


def test_service_that_leaves_is_no_target_any_more(asking: Asking, consul: Consul) -> None:
    """A machine that was given away must not raise alerts for ever."""
    consul.register("guest", 9, "metrics")
    wait_for(lambda: asking.ask('up{job="guest"} == 0'), "it is a target", 120)
    consul.deregister("guest")
    wait_for(lambda: not asking.ask('up{job="guest"}'), "it is none", 120)

    assert asking.ask('up{job="oven"}')


@pytest.mark.parametrize("tls_dir", ["", "/etc/hearth/tls"])
@pytest.mark.parametrize("name", ["prometheus", "node-exporter", "grafana"])
def test_job_is_valid_with_and_without_tls(nomad: Nomad, name: str, tls_dir: str) -> None:
    """A job that Nomad refuses stops a run in its middle."""
    needed = {"prometheus": {"config": "a", "rules": "b"}, "grafana": {"image": "a@sha256:b"}}
    job = nomad.parse(JOBS / f"{name}.nomad.hcl", tls_dir=tls_dir, **needed.get(name, {}))
    (service,) = job["TaskGroups"][0]["Services"]

    assert nomad.complaints(job) == []
    scheme = "https" if tls_dir else "http"
    assert service["Meta"] == {"scheme": scheme, "metrics_scheme": scheme}
    assert service["Checks"][0]["Protocol"] == scheme


def test_grafana_job_carries_data_source_and_dashboards(nomad: Nomad) -> None:
    """Grafana itself is not to be had here: what it would be given is read off the real plan."""
    boards = {file.stem: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.json"))}
    job = nomad.parse(
        JOBS / "grafana.nomad.hcl", image="grafana/grafana@sha256:0", dashboards=boards,
        prometheus_url="https://prometheus.service.consul:9090", ca_certificate="-----BEGIN",
        tls_dir="/etc/hearth/tls",
    )  # fmt: skip
    (group,) = job["TaskGroups"]
    (task,) = group["Tasks"]
    files = {one["DestPath"]: one["EmbeddedTmpl"] for one in task["Templates"]}

    for name, text in boards.items():
        assert json.loads(files[f"local/dashboards/{name}.json"]) == json.loads(text)
    assert '"uid": "prometheus"' in files["local/provisioning/datasources/prometheus.yaml"]
    assert group["Services"][0]["Name"] == "grafana"
    assert group["Services"][0]["Tags"] == ["metrics"]
