"""The roles mosquitto and home_assistant: they, their jobs and the registry of names agree."""

import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from hearth.service.names import CLUSTER_PORTS, HOME_ASSISTANT, MOSQUITTO
from tests.integration.monitoring.agents import Consul, Nomad
from tests.rules.tree import ROOT
from tests.shown import Shown

JOBS = ROOT / "nomad_jobs"
ROLES = {MOSQUITTO: "mosquitto", HOME_ASSISTANT: "home_assistant"}
PAGE = "docs/howto/run-home-assistant.md"

Json = dict[str, Any]


def load(*parts: str) -> Json:
    found: Json = YAML(typ="safe").load(ROOT.joinpath("ansible", "roles", *parts))
    return found


@pytest.mark.parametrize(("service", "role"), ROLES.items())
def test_role_job_and_registry_agree(service: str, role: str) -> None:
    """One name and one port, wherever they are written."""
    job = (JOBS / f"{service}.nomad.hcl").read_text(encoding="utf-8")
    port = re.search(r'variable "port" \{[^}]*default\s+= (\d+)', job)
    given = load(role, "vars", "main.yaml")[f"__{role}_variables"]

    assert port is not None
    assert int(port[1]) == CLUSTER_PORTS[service]
    assert str(port[1]) in str(load(role, "defaults", "main.yaml")[f"{role}_port"])
    assert f'job "{service}"' in job
    assert f'name     = "{service}"' in job
    assert set(given) - set(re.findall(r'^variable "(\w+)"', job, re.MULTILINE)) == set()


@pytest.mark.nomad
def test_nomad_accepts_both_jobs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A job that Nomad refuses stops a run in its middle."""
    with (
        Consul(tmp_path_factory.mktemp("consul")) as consul,
        Nomad(tmp_path_factory.mktemp("nomad"), consul) as nomad,
    ):
        jobs = [
            nomad.parse(JOBS / "mosquitto.nomad.hcl", config="a", acl="b", tls=True),
            nomad.parse(JOBS / "home-assistant.nomad.hcl", image="a:1", machine="attic"),
        ]

        assert [nomad.complaints(job) for job in jobs] == [[], []]
    checks = [job["TaskGroups"][0]["Services"][0]["Checks"][0] for job in jobs]
    assert [check["Type"] for check in checks] == ["tcp", "http"]
    (task,) = jobs[1]["TaskGroups"][0]["Tasks"]
    assert [str(one) for one in task["Config"]["args"]] == [
        "mosquitto.service.consul",
        "8883",
        "/init",
    ]


def test_services_are_left_out_unless_they_are_enabled() -> None:
    """An existing cluster gets no new service by an upgrade."""
    assert load("home_assistant", "defaults", "main.yaml")["home_assistant_enabled"] is False
    enabled = load("mosquitto", "defaults", "main.yaml")["mosquitto_enabled"]
    assert enabled == "{{ home_assistant_enabled | default(false) }}"


def test_settings_of_the_page_are_settings_of_the_roles(shown: Shown) -> None:
    """An example with a misspelt name would do nothing."""
    known = {
        name: option
        for role in ROLES.values()
        for name, option in load(role, "meta", "argument_specs.yaml")["argument_specs"]["main"][
            "options"
        ].items()
    }
    kinds = {"bool": bool, "str": str, "dict": dict}
    for _ in range(3):
        for name, value in YAML(typ="safe").load(shown.take(PAGE)).items():
            assert isinstance(value, kinds[known[name]["type"]]), name
