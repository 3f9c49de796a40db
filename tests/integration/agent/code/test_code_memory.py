"""`hearth code memory`: the files of a project over several runs, from the shell."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.integration.agent.code.conftest import repository
from tests.integration.agent.conftest import House
from tests.integration.agent.library.test_models import ran
from tests.integration.agent.test_cli import Hearth

WRITE = """
id: write
inputs: {repo: text, path: text, text: text}
workspace: {repo: "{{ inputs.repo }}"}
steps:
  - {id: file, use: file.write, with: {path: "{{ inputs.path }}", text: "{{ inputs.text }}"}}
  - {id: known, use: code.memory, needs: [file], with: {path: main.py}}
outputs: {content: "{{ known.content }}", versions: "{{ known.versions }}"}
"""


def write(client: httpx2.Client, repo: Path, path: str, text: str) -> dict[str, Any]:
    """Let a run write one file."""
    view = ran(client, WRITE, repo=str(repo), path=path, text=text)
    assert view["status"] == "done", view["error"]
    outputs: dict[str, Any] = view["outputs"]
    return outputs


@pytest.mark.proves("002-23")
@pytest.mark.proves("002-25")
def test_two_runs_share_the_memory_of_their_project(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """The second run reads what the first one wrote; a person shows, exports and clears it."""
    repo = repository(tmp_path / "mine", {"README.md": "Mine.\n"})
    other = repository(tmp_path / "other", {"main.py": "print('other')\n"})
    with empty_house.client() as client:
        write(client, repo, "main.py", "print('one')\n")
        second = write(client, repo, "main.py", "print('two')\n")
        third = write(client, repo, "notes/plan.md", "Print more.\n")
        write(client, other, "x.py", "")
    words = ("code", "memory", "--repo", str(repo))

    listed = hearth(*words)
    found = hearth(*words, "--search", "PRINT", "--name", ".md")
    shown = hearth(*words, "main.py")
    missing = hearth(*words, "nosuch.py")
    exported = json.loads(hearth(*words, "--export").stdout)
    cleared = hearth(*words, "--clear")
    after = hearth(*words)
    others = hearth("code", "memory", "--repo", str(other))

    assert [one["text"] for one in second["versions"]] == ["print('two')\n", "print('one')\n"]
    assert third["content"] == "print('two')\n"
    assert listed.output == "README.md\nmain.py\nnotes/plan.md\n"
    assert found.output == "notes/plan.md:1: Print more.\n"
    *versions, blank, content = shown.output.splitlines()
    assert (len(versions), blank, content) == (2, "", "print('two')")
    assert missing.exit_code == 1
    assert "has a file 'nosuch.py'" in missing.stderr
    assert [file["path"] for file in exported["files"]] == ["README.md", "main.py", "notes/plan.md"]
    assert exported["files"][1]["versions"][1]["content"] == "print('one')\n"
    assert cleared.output == "Removed the files of 3 runs.\n"
    assert after.output == ""
    assert others.output == "main.py\nx.py\n"
