"""The command `llm` against one gateway: prints one JSON object, per interface a key per case.

`extra-openai-models.yaml` names the gateway; a model with `responses: true` uses `/v1/responses`.
Expected results are asserted by tests/integration/gateway/clients/test_llm.py, which wrote the
script of the model `small`; `smollm2` is the real model. Settings: OPENAI_BASE_URL, OPENAI_API_KEY.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

LLM = [sys.executable, "-m", "llm"]
CLOCK = """
def time_now(zone: str) -> str:
    "The time in a zone."
    return f"12:00 in {zone}"
"""
RIVER = """{
  "type": "object",
  "properties": {"name": {"type": "string", "minLength": 3, "maxLength": 12}},
  "required": ["name"],
  "additionalProperties": false
}"""
MODELS = """
- model_id: {interface}-{model}
  model_name: {model}
  api_base: {base}
  api_key_name: openai
  responses: {responses}
  supports_tools: true
  supports_schema: true
  vision: true
"""


def configure() -> None:
    """Write the models of both interfaces into the folder of settings, an empty one."""
    folder = Path.cwd() / "settings"
    folder.mkdir()
    os.environ["LLM_USER_PATH"] = str(folder)
    entries = [
        MODELS.format(
            interface=interface, model=model, base=os.environ["OPENAI_BASE_URL"],
            responses=str(interface == "responses").lower(),
        )
        for interface in ("chat", "responses")
        for model in ("auto", "small", "smollm2", "smal")
    ]  # fmt: skip
    (folder / "extra-openai-models.yaml").write_text("".join(entries))
    Path("picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")


def llm(*arguments: str) -> str:
    """Return what the command prints. Raises `CalledProcessError` when it fails."""
    command = [*LLM, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return ended.stdout.strip()


class Cases:
    """The cases of one interface."""

    def __init__(self, interface: str) -> None:
        self._interface = interface

    def model(self, name: str = "small") -> list[str]:
        return ["-m", f"{self._interface}-{name}"]

    def two_turns(self) -> list[str]:
        """The second turn sends the first one out of the command's own log."""
        return [llm(*self.model("auto"), "good day"), llm("-c", "good day once more")]

    def tools(self) -> dict[str, Any]:
        """Two calls at once, their results out of the command's log, and the words after them."""
        said = llm(*self.model(), "what time", "--functions", CLOCK)
        last = json.loads(llm("logs", "--json", "-n", "1"))[0]
        return {"results": [one["output"] for one in last["tool_results"]], "then": said}

    def river(self) -> Any:
        """The real model, held to a schema by its grammar."""
        return json.loads(llm(*self.model("smollm2"), "--schema", RIVER, "Name a river."))

    def failure(self, text: str, name: str = "small", *arguments: str) -> dict[str, Any]:
        """What a person sees."""
        command = [*LLM, *self.model(name), *arguments, text]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return {"code": ended.returncode, "message": ended.stderr.strip()}

    def interrupted(self) -> bool:
        """A person presses Ctrl-C while words arrive."""
        command = [*LLM, *self.model(), "a long story"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
            assert run.stdout
            seen = run.stdout.read(4)
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=60)
        return seen == b"once"

    def all(self) -> dict[str, Callable[[], Any]]:
        return {
            "twoTurns": self.two_turns,
            "whole": lambda: llm(*self.model(), "--no-stream", "good day"),
            "tools": self.tools,
            "river": self.river,
            "picture": lambda: llm(*self.model(), "-a", "picture.png", "good day"),
            "refused": lambda: self.failure("refuse"),
            "wrong": lambda: self.failure("wrong"),
            "unknownModel": lambda: self.failure("x", "smal"),
            "wrongKey": lambda: self.failure("x", "small", "--key", "sk-wrong"),
            "broken": lambda: self.failure("break"),
            "interrupted": self.interrupted,
        }


def main() -> dict[str, Any]:
    configure()
    results: dict[str, Any] = {"version": version("llm")}
    for name in ("chat", "responses"):
        results[name] = {label: run() for label, run in Cases(name).all().items()}
    return results


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
