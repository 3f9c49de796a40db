"""The reference pages that follow from the code. `python -m tests.reference` writes them."""

from collections.abc import Callable
from pathlib import Path

import typer
from prometheus_client import CollectorRegistry
from typer.core import TyperGroup
from typer.main import get_command

from hearth.cli import build_cli
from hearth.service.settings import StrictSettings
from hearth.settings import Settings as HearthSettings
from llama_expert.embeddings.settings import Settings as EmbeddingsSettings
from llama_expert.metrics import ExpertMetrics
from llama_expert.settings import Settings as ExpertSettings
from moe_gateway.requests.metrics import ConsulCollector, GatewayMetrics
from moe_gateway.routing.admission import Admission
from moe_gateway.settings import Settings as GatewaySettings
from pipecatapp.metrics import RunMetrics
from pipecatapp.settings import Settings as AgentSettings
from pipecatapp.tools.page import tools_page
from pipecatapp.voice.metrics import VoiceMetrics
from power_manager.metrics import Metrics as PowerMetrics
from power_manager.settings import Settings as PowerSettings
from power_manager.settings import SleeperSettings
from speech.metrics import SpeechMetrics
from speech.settings import Settings as SpeechSettings
from tests.ansible.page import variables_page
from tests.dashboards.page import dashboards_page
from tests.support.reference.projects import projects_page
from tests.support.reference.workflows import documents_page

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
HEAD = "Written by `make docs` from the code; do not edit.\n"
SERVICES: dict[str, type[StrictSettings]] = {
    "hearth": HearthSettings,
    "llama_expert": ExpertSettings,
    "llama_expert.embeddings": EmbeddingsSettings,
    "moe_gateway": GatewaySettings,
    "pipecatapp": AgentSettings,
    "power_manager": PowerSettings,
    "power_manager.sleeper": SleeperSettings,
    "speech": SpeechSettings,
}


def settings() -> str:
    """Every environment variable that a part of Hearth reads."""
    lines = ["# Settings", "", HEAD]
    lines += [
        "A service does not start if a variable with one of these prefixes is not listed here.",
        "",
    ]
    for service, kind in SERVICES.items():
        lines += [
            f"## {service}",
            "",
            "| variable | default | description |",
            "| --- | --- | --- |",
        ]
        prefix = str(kind.model_config["env_prefix"])
        for name, field in kind.model_fields.items():
            assert field.description, f"{kind.__module__}.{name} has no description"
            default = "required" if field.is_required() else _default(field.default)
            lines.append(f"| `{prefix}{name.upper()}` | {default} | {field.description} |")
        lines.append("")
    return "\n".join(lines)


def _default(value: object) -> str:
    return "" if value is None or repr(value) == "PydanticUndefined" else f"`{value}`"


def commands() -> str:
    """Every command with its options, except deprecated names."""
    root = get_command(build_cli())
    assert isinstance(root, TyperGroup)
    lines = ["# Commands", "", HEAD]
    return "\n".join([*lines, *_describe(root, typer.Context(root, info_name="hearth"))])


def _describe(group: TyperGroup, context: typer.Context) -> list[str]:
    lines: list[str] = []
    for name, child in group.commands.items():
        if child.hidden:
            continue
        inner = typer.Context(child, info_name=name, parent=context)
        lines += [f"## {inner.command_path}", "", (child.help or "").strip(), ""]
        for parameter in child.params:
            record = parameter.get_help_record(inner)
            if record and record[0] != "--help":
                lines.append(f"* `{record[0]}` {record[1]}".rstrip())
        lines.append("")
        if isinstance(child, TyperGroup):
            lines += _describe(child, inner)
    return lines


def metrics() -> str:
    """Every metric of our services, as `/metrics` names it."""
    lines = ["# Metrics", "", HEAD]
    lines += [
        "Each service serves `/metrics` without a key. No label contains text of users. Each also",
        "has the metrics of its process (memory, processor time, open files: `process_…`) and of",
        "Python (`python_…`).",
        "",
    ]
    gateway, agent, expert = CollectorRegistry(), CollectorRegistry(), CollectorRegistry()
    GatewayMetrics(gateway, [], Admission(1, 1))
    gateway.register(ConsulCollector(lambda: None))
    RunMetrics(agent)
    VoiceMetrics(agent)
    ExpertMetrics(expert, [])
    power, speech = CollectorRegistry(), CollectorRegistry()
    PowerMetrics(power)
    SpeechMetrics(speech, "stt")
    services = {
        "moe-gateway": gateway, "pipecatapp": agent, "llama-expert": expert,
        "power-manager": power, "speech": speech,
    }  # fmt: skip
    for service, registry in services.items():
        lines += [f"## {service}", "", "| metric | type | description |", "| --- | --- | --- |"]
        for family in sorted(registry.collect(), key=lambda family: family.name):
            name = family.name + ("_total" if family.type == "counter" else "")
            lines.append(f"| `{name}` | {family.type} | {family.documentation} |")
        lines.append("")
    lines += [
        "The launcher of the expert serves its metrics at `LLAMA_EXPERT_METRICS_PORT`. The server",
        "of llama.cpp serves its own at the expert's port (`llamacpp:…`, with its key).",
        "",
    ]
    return "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "dashboards.md": dashboards_page,
    "metrics.md": metrics,
    "project-documents.md": projects_page,
    "settings.md": settings,
    "tools.md": tools_page,
    "variables.md": lambda: variables_page(HEAD),
    "workflow-documents.md": documents_page,
}


def main() -> None:
    """Write every page."""
    for name, render in PAGES.items():
        (FOLDER / name).write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
