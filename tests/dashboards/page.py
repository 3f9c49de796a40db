"""The reference page of the dashboards: every panel with what it asks Prometheus."""

from ruamel.yaml import YAML

from tests.dashboards.__main__ import BOARDS, FOLDER
from tests.dashboards.panels import Panel

RULES = FOLDER.parents[2] / "prometheus" / "files" / "rules.yaml"


def dashboards_page() -> str:
    """Panels and their queries, then the alerts."""
    lines = [
        "# Dashboards and alerts",
        "",
        "Written by `make docs` from the code; do not edit.",
        "",
    ]
    lines += [
        "`$__rate_interval` is Grafana's: four times Prometheus' own interval, or more.",
        "In the page of Prometheus itself, write `1m` in its place.",
        "",
    ]
    for board in BOARDS:
        lines += [f"## {board.title}", "", board.description, ""]
        for panel in board.panels:
            lines += [*_described(panel), ""]
    return "\n".join([*lines, *_alerts(), ""])


def _described(panel: Panel) -> list[str]:
    built = panel.build()
    queries = [str(getattr(target, "expr", "")) for target in built.targets or []]
    return [f"### {built.title}", "", str(built.description), "", "```text", *queries, "```"]


def _alerts() -> list[str]:
    lines = ["## Alerts", "", "| alert | severity | when | for |", "| --- | --- | --- | --- |"]
    for group in YAML(typ="safe").load(RULES)["groups"]:
        for rule in group["rules"]:
            when = " ".join(str(rule["expr"]).split()).replace("|", "\\|")
            severity, lasts = rule["labels"]["severity"], rule.get("for", "at once")
            lines.append(f"| {rule['alert']} | {severity} | `{when}` | {lasts} |")
    return lines
