"""The roles of monitoring: their settings, and that roles, jobs and registry say the same."""

import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from hearth.service.names import CLUSTER_PORTS, GRAFANA, NODE_EXPORTER, PROMETHEUS
from tests.rules.tree import ROOT
from tests.shown import Shown

ROLES = ROOT / "ansible" / "roles"
NAMES = {PROMETHEUS: "prometheus", NODE_EXPORTER: "node_exporter", GRAFANA: "grafana"}
SHA256 = re.compile(r"[0-9a-f]{64}")

Json = dict[str, Any]


def load(*parts: str) -> Json:
    found: Json = YAML(typ="safe").load(ROOT.joinpath(*parts))
    return found


@pytest.mark.parametrize(("service", "role"), NAMES.items())
def test_role_job_and_registry_agree(service: str, role: str) -> None:
    """One name and one port, wherever they stand."""
    job = (ROOT / "nomad_jobs" / f"{service}.nomad.hcl").read_text(encoding="utf-8")
    port = re.search(r'variable "port" \{[^}]*default\s+= (\d+)', job)
    defaults = load("ansible", "roles", role, "defaults", "main.yaml")

    assert port is not None
    assert int(port[1]) == CLUSTER_PORTS[service] == defaults[f"{role}_port"]
    assert f'job "{service}"' in job
    assert f'name     = "{service}"' in job


@pytest.mark.parametrize("role", NAMES.values())
def test_every_setting_of_a_role_is_described(role: str) -> None:
    """What is not described cannot be found; what is described and not there is a lie."""
    defaults = load("ansible", "roles", role, "defaults", "main.yaml")
    specs = load("ansible", "roles", role, "meta", "argument_specs.yaml")["argument_specs"]
    options = specs["main"]["options"]

    assert {name: option["default"] for name, option in options.items()} == defaults
    assert [name for name in defaults if not name.startswith(f"{role}_")] == []


def test_every_variable_that_a_role_gives_is_one_of_its_job() -> None:
    """The module refuses a variable that the job does not have, in the middle of a run."""
    for service, role, name in (
        (PROMETHEUS, "prometheus", "__prometheus_variables"),
        (GRAFANA, "grafana", "__grafana_variables"),
    ):
        given = load("ansible", "roles", role, "vars", "main.yaml")[name]
        job = (ROOT / "nomad_jobs" / f"{service}.nomad.hcl").read_text(encoding="utf-8")

        assert set(given) - set(re.findall(r'^variable "(\w+)"', job, re.MULTILINE)) == set()


def test_programs_are_pinned_for_both_architectures() -> None:
    """An archive without a checksum is whatever the network says that it is."""
    artifacts = load("group_vars", "all", "artifacts.yaml")["artifacts"]
    for name in ("prometheus", "promtool", "node_exporter"):
        archives = artifacts[name]["archives"]

        assert set(archives) == {"amd64", "arm64"}
        assert all(SHA256.fullmatch(one["sha256"]) for one in archives.values())
        assert all(artifacts[name]["version"] in one["url"] for one in archives.values())
    image = load("ansible", "roles", "grafana", "defaults", "main.yaml")["grafana_image"]
    assert SHA256.fullmatch(image.partition("@sha256:")[2])


def test_password_is_one_of_the_secrets(shown: Shown) -> None:
    """The page sends people to a line that has to be there."""
    command = shown.take("docs/howto/watch-in-grafana.md")
    kinds = load("group_vars", "all", "main.yaml")["cluster_secret_kinds"]

    assert kinds[command.split()[-1]] == "password"


def test_settings_of_the_page_are_settings_of_the_roles(shown: Shown) -> None:
    """An example with a misspelt name would do nothing."""
    wanted = YAML(typ="safe").load(shown.take("docs/howto/watch-in-grafana.md"))
    known: Json = {}
    for role in NAMES.values():
        known |= load("ansible", "roles", role, "defaults", "main.yaml")

    assert {name: type(value) for name, value in wanted.items()} == {
        name: type(known[name]) for name in wanted
    }
