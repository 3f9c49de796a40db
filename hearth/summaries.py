"""Summary of each command, so that `hearth --help` loads no command."""

from collections.abc import Mapping
from typing import Final

SUMMARIES: Final[Mapping[str, Mapping[str, str]]] = {
    "Run Hearth": {
        "up": "Start Hearth on this machine and show its logs.",
        "down": "Stop the instance.",
        "status": "Show the status of services, machines and experts.",
        "doctor": "Check what Hearth needs on this machine.",
        "logs": "Show the services' logs in order of time.",
        "models": "List, download, choose, measure and remove models.",
        "keys": "Create, list, limit and revoke API keys.",
        "power": "See machines that sleep, wake them, keep them awake, and test both.",
        "backup": "Write ledger, notes, documents and keys to one file.",
        "restore": "Restore a backup.",
    },
    "Use it": {
        "run": "Run a workflow and print its output as it arrives.",
        "runs": "Manage runs: list, show, answer, cancel, repeat, compare, export and delete.",
        "conversations": "Manage conversations: list, rename, pin, branch, delete and export.",
        "tasks": "Manage stored tasks: list, show, add, copy, run and remove.",
        "home": "Join a Home Assistant, leave it, and show it.",
        "schedule": "Manage schedules: list, add, pause, resume, run and remove.",
        "triggers": "Manage triggers: webhooks and watched folders that start workflows.",
        "code": "Fix and write source code with agents.",
        "evolve": "Improve prompts on measured runs.",
        "knowledge": "Manage indexed documents: add, list, show, search, update and remove.",
        "fixes": "Manage stored fixes: list, show, export, import and remove.",
        "say": "Speak a text on this machine's loudspeaker, or write the speech to a file.",
        "listen": "Transcribe a recording.",
    },
    "Write workflows": {
        "workflows": "Manage workflows: list, show, edit, compare, test, save and remove.",
        "layers": "Manage layers, which change workflows: list, show, save and remove.",
        "prompts": "Manage system prompts: list, show, add and remove.",
        "projects": "List and show projects.",
        "bundles": (
            "Give workflows, prompts and projects to another home, or take some: export, show and "
            "import."
        ),
        "secrets": "Manage secrets for programs of projects: list, set and remove.",
        "tools": "List, describe and call the tools of workflows and agents.",
        "plan": "Show the graph of a workflow without running it.",
        "validate": "Check workflows as `plan` and `run` do.",
        "explain": "Show the value that each layer, variant and document sets for a field.",
        "flatten": (
            "Print the workflow that results from a document, its variants and its layers."
        ),
        "import": (
            "Convert an OrchestrAI file (`pipeline:`) or a file of connected nodes (`nodes:`) "
            "to a workflow."
        ),
    },
    "Try a cluster": {
        "lab": "Test an inventory on Debian hosts on this machine; needs root.",
    },
}
"""The first sentence of each command's help, by group, in the order in which they are shown."""
