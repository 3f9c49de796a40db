"""What each command does: `hearth --help` shows it without loading any command."""

from typing import Final

SUMMARIES: Final = {
    "up": "Start Hearth on this machine and show its logs; Ctrl-C stops it.",
    "down": "Stop the instance that runs on the state directory.",
    "status": (
        "Show every service, and of a cluster machines and experts, too; exit code 0 all "
        "healthy, 1\n"
        "some not, 3 nothing runs."
    ),
    "doctor": "Check everything that Hearth needs here; exit code 1 when something fails.",
    "logs": "Show what the services wrote, in the order in which they wrote it.",
    "run": "Run a workflow; its text is printed as it comes. Ctrl-C cancels the run.",
    "plan": "Show the graph of a workflow without running it; exit code 2 when it is wrong.",
    "explain": "Show which layer, variant or document says what of a field; the first one wins.",
    "flatten": "Write out the workflow that comes of a document, its variants and layers.",
    "backup": (
        "Write ledger, notes, documents and keys into one file; what runs goes on meanwhile."
    ),
    "restore": (
        "Make a backup the state again; what it replaces stays in the folder backups of the state."
    ),
    "validate": (
        "Check workflows as `plan` and `run` do; exit code 2 when one of them is wrong. "
        "Files that are\n"
        "checked together may use and extend each other."
    ),
    "tools": (
        "List the tools that nodes can use, with the effect of each; --json adds their schemas."
    ),
    "import": (
        "Read a file of OrchestrAI (`pipeline:`), or one with connected `nodes:`, as a workflow."
    ),
    "say": "Speak a text, on this machine's loudspeaker or into a file.",
    "listen": "Write down what is said in a recording.",
    "lab": "Real hosts on this machine, to try an inventory on; needs root.",
    "models": "See, get, choose, measure and remove models.",
    "keys": "Make, see, limit and revoke keys.",
    "code": "Let agents change source code.",
    "runs": "List, show, answer, cancel, repeat, compare, export and remove runs.",
    "conversations": "List, rename, delete and export conversations.",
    "workflows": "List, show, edit, compare, save and remove workflows.",
    "layers": "List, show, save and remove layers, which change workflows.",
    "schedule": "List, add, pause, resume, run and remove schedules.",
    "tasks": "List, show, add, copy, run and remove stored tasks.",
    "prompts": "List, show, add and remove system prompts for models.",
    "projects": "List and show projects.",
    "secrets": "List, set and remove secrets, which programs of projects receive.",
    "fixes": "List, show, export, import and remove stored fixes.",
}
"""By name, in the order in which they are shown."""
