"""What Prometheus is given: its configuration and the alert rules, held to its own tool."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.integration.monitoring.prometheus import ROLE, configuration

RULES = ROLE / "files" / "rules.yaml"
CASES = Path(__file__).with_name("rules.test.yaml")

Promtool = Callable[..., subprocess.CompletedProcess[str]]


def test_alert_rules_are_well_formed(promtool: Promtool) -> None:
    """Prometheus does not start with a rule that it cannot read."""
    ended = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_alerts_come_with_their_cause_and_not_without(promtool: Promtool, tmp_path: Path) -> None:
    """An alert that never comes is as bad as one that always does."""
    for file in (RULES, CASES):
        shutil.copy(file, tmp_path)

    ended = promtool("test", "rules", str(tmp_path / CASES.name))

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_test_of_alerts_fails_without_the_rule(promtool: Promtool, tmp_path: Path) -> None:
    """The test above must be able to fail."""
    shutil.copy(CASES, tmp_path)
    text = RULES.read_text(encoding="utf-8").replace("up == 0", "up == 2")
    (tmp_path / RULES.name).write_text(text, encoding="utf-8")

    assert promtool("test", "rules", str(tmp_path / CASES.name)).returncode != 0


def test_every_alert_is_tested_and_says_what_to_do() -> None:
    """Who is woken at night wants to know what is wrong, and the first command to type."""
    yaml = YAML(typ="safe")
    rules = [rule for group in yaml.load(RULES)["groups"] for rule in group["rules"]]
    tested = {
        case["alertname"]
        for test in yaml.load(CASES)["tests"]
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }

    assert {rule["alert"] for rule in rules} == tested
    assert [r["alert"] for r in rules if set(r["annotations"]) != {"summary", "remedy"}] == []
    assert {rule["labels"]["severity"] for rule in rules} == {"critical", "warning"}


@pytest.mark.parametrize(("tls", "acl"), [(True, True), (False, True), (False, False)])
def test_configuration_is_well_formed_at_every_level_of_security(
    promtool: Promtool, tmp_path: Path, *, tls: bool, acl: bool
) -> None:
    """full, lan and none: Prometheus trusts the cluster's authority, and shows keys where due."""
    text = configuration(
        prometheus_tls=tls, prometheus_acl=acl, prometheus_ca_file="/etc/hearth/tls/ca.pem",
        prometheus_cluster="home",
    )  # fmt: skip
    file = tmp_path / "prometheus.yaml"
    file.write_text(text, encoding="utf-8")
    ended = promtool("check", "config", "--syntax-only", str(file))
    jobs = {job["job_name"]: job for job in YAML(typ="safe").load(text)["scrape_configs"]}

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert set(jobs) == {"services", "llama-expert", "nomad", "consul"}
    assert all(("tls_config" in job) == tls for job in jobs.values())
    assert [jobs[name].get("scheme") for name in ("nomad", "consul")] == [
        "https" if tls else None
    ] * 2
    assert ("authorization" in jobs["consul"]) == acl
    assert jobs["llama-expert"]["authorization"] == {"credentials_file": "../secrets/expert_key"}
