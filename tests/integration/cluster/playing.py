"""Runs tasks with the real ansible-playbook and brings back what each of them answered."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"


def play(
    folder: Path, tasks: Sequence[Mapping[str, Any]], *options: str, fails: bool = False
) -> list[Any]:
    """The answers of `tasks`, in their order; with `fails`, those up to the one that failed.

    Values that look like `{{ r0.secrets }}` refer to an earlier answer.
    """
    found = folder / "answers.json"
    named = [{"name": f"Task {n}", **t, "register": f"r{n}"} for n, t in enumerate(tasks)]
    keep = {
        "name": "Keep the answers",
        "ansible.builtin.copy": {
            "dest": str(found),
            "content": "{{ [" + ", ".join(f"r{n}" for n in range(len(named))) + "] | to_json }}",
        },
        "check_mode": False,
    }
    for task in named if fails else []:
        task["ignore_errors"] = True
    book = folder / "play.json"
    book.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False,
                                 "tasks": [*named, keep]}]))  # fmt: skip
    ended = subprocess.run(
        [PLAYBOOK, "-i", "localhost,", "-c", "local", "-e",
         f"ansible_python_interpreter={sys.executable}", *options, str(book)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "HOME": str(folder),
                          "ANSIBLE_STDOUT_CALLBACK": "default"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    answers: list[Any] = json.loads(found.read_text())
    return [*answers, ended.stdout + ended.stderr]
