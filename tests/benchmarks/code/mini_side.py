"""mini-swe-agent with a scripted model: runs in its own environment.

Reads a JSON list of `{files, steps}` from standard input; each step is the command that the model
answers with, and how many of the first ones must follow each other. Writes a list of `{tokens,
largest, green}`: characters of all prompts and answers through four, and of the largest prompt.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["MSWEA_SILENT_STARTUP"] = "1"

import yaml  # type: ignore[import-untyped]
from minisweagent.agents.default import DefaultAgent  # type: ignore[import-not-found]
from minisweagent.config import builtin_config_dir  # type: ignore[import-not-found]
from minisweagent.environments.local import LocalEnvironment  # type: ignore[import-not-found]
from minisweagent.models.test_models import DeterministicModel, make_output  # type: ignore[import-not-found]

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
CHECK = ["python3", "test_solution.py"]


class Counting(DeterministicModel):  # type: ignore[misc]
    """The next command for each prompt; the prompts are counted. Ends when the check passes."""

    def __init__(self, folder: Path, steps: list[str], **config: Any) -> None:
        super().__init__(outputs=[], **config)
        self.folder, self.steps = folder, steps
        self.tokens, self.largest = 0.0, 0.0

    def query(self, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        size = sum(len(message["content"]) for message in messages) / 4
        done = is_green(self.folder) or not self.steps
        command = SUBMIT if done else self.steps.pop(0)
        answer = f"THOUGHT: This is the next step.\n\n```mswea_bash_command\n{command}\n```"
        self.tokens += size + len(answer) / 4
        self.largest = max(self.largest, size)
        output: dict[str, Any] = make_output(answer, [{"command": command}], 0.0)
        return output


def is_green(folder: Path) -> bool:
    """Whether the tests pass."""
    return subprocess.run(CHECK, cwd=folder, capture_output=True, check=False).returncode == 0


def repaired(case: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Let the agent work on one project, with the templates that it ships."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in case["files"].items():
            (folder / path).write_text(text, encoding="utf-8")
        model = Counting(
            folder,
            list(case["steps"]),
            observation_template=config["model"]["observation_template"],
        )
        environment = LocalEnvironment(cwd=name, **config["environment"])
        agent = DefaultAgent(model, environment, **config["agent"])
        agent.run("The command `python3 test_solution.py` fails. Do not change test_solution.py.")
        return {"tokens": model.tokens, "largest": model.largest, "green": is_green(folder)}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    shipped = yaml.safe_load((builtin_config_dir / "default.yaml").read_text())
    json.dump([repaired(case, shipped) for case in json.load(sys.stdin)], sys.stdout)
