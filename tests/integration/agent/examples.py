"""The examples of `examples/`: each is run by the command, and what it gives is compared.

    python -m tests.integration.agent.examples

writes the expected results again, for a person to review.
"""

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import structlog
from ruamel.yaml import YAML

from hearth.openai_api.scripted import RULES
from tests.conftest import served
from tests.integration.agent.code.conftest import follow_until, git, repository
from tests.integration.agent.conftest import House, ScriptedGateway
from tests.integration.agent.test_cli import announce, command

ROOT = Path(__file__).parents[3] / "examples"
NAMES = sorted(path.parent.name for path in ROOT.glob("*/example.yaml"))
_RUN = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")
_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")
"""Ids of runs and commits differ each time."""
Json = dict[str, Any]


def read(name: str) -> Json:
    """An example as it is written."""
    found: Json = YAML(typ="safe").load((ROOT / name / "example.yaml").read_text(encoding="utf-8"))
    return found


def expected(name: str) -> Json:
    """What an example gives: its outputs, those of the run that it starts, and the files that its
    branch adds or changes.
    """
    found: Json = json.loads((ROOT / name / "expected.json").read_text(encoding="utf-8"))
    return found


def run_example(name: str, house: House, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Json:
    """Run an example by `hearth run` beside a running instance, and return what it gives."""
    example = read(name)
    for rule in RULES.validate_python(example["model"]):
        rule.add_to(house.model)
    inputs = dict(example["inputs"])
    if "files" in example:
        inputs["repo"] = str(repository(folder / "repo", example["files"]))
    document = str(ROOT / name / example["document"]) if "document" in example else ""
    words = ["run", document or example["workflow"], "--json"]
    for key, value in inputs.items():
        words += ["-i", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    for key, value in example.get("answers", {}).items():
        words += ["--answer", f"{key}={value}"]
    hearth = command(house, monkeypatch)
    with house.running():
        announce(house)
        if "documents" in example:
            _add_documents(hearth, folder / "documents", example["documents"])
        with house.client() as client:
            for body in example.get("before", ()):
                run = client.post("/api/runs", json=body).json()["run"]
                client.get(f"/api/runs/{run}/events")
        ended = hearth(*words)
        assert ended.exit_code == 0, ended.output
        outputs = json.loads(ended.stdout)["outputs"]
        branch = outputs.get("branch")
        given = {"outputs": outputs, "files": _files(folder / "repo", branch) if branch else {}}
        if started := outputs.get("run"):
            with house.client() as client:
                given["started"] = follow_until(client, started, "end")["outputs"]
    text = json.dumps(given, ensure_ascii=False)
    written: Json = json.loads(_COMMIT.sub("COMMIT", _RUN.sub("RUN", text)))
    return written


def _add_documents(hearth: Any, folder: Path, documents: dict[str, str]) -> None:
    """Write the documents of an example, and index them as the source `home`."""
    folder.mkdir()
    for name, text in documents.items():
        (folder / name).write_text(text, encoding="utf-8")
    added = hearth("knowledge", "add", "home", str(folder))
    assert added.exit_code == 0, added.output


def _files(repo: Path, branch: str) -> dict[str, str]:
    """The text files that a branch adds or changes."""
    lines = git(repo, "diff", "--numstat", f"main..{branch}").splitlines()
    texts = [line.split("\t")[2] for line in lines if not line.startswith("-")]
    return {name: git(repo, "show", f"{branch}:{name}") for name in texts}


def write() -> None:
    """Run every example and write what it gives."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    for name in sys.argv[1:] or NAMES:
        with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as monkeypatch:
            folder, model = Path(root), ScriptedGateway()
            with served(model.app) as gateway:
                house = House(folder / "state", model, gateway)
                house.state.mkdir()
                (house.state / "key").write_text(house.key, encoding="utf-8")
                (house.state / "service_key").write_text("sk-hearth-services", encoding="utf-8")
                given = run_example(name, house, folder, monkeypatch)
        text = json.dumps(given, indent=1, ensure_ascii=False) + "\n"
        (ROOT / name / "expected.json").write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    write()
