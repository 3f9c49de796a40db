"""Tools and prompts that a person adds without touching the program."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import announce, command

OWN = '''
from pydantic import BaseModel, Field

from pipecatapp.workflow import Context, tool


class Shouted(BaseModel):
    """A text."""

    text: str = Field(description="In capitals.")


@tool("text.shout", effect="pure", version=1)
async def shout(ctx: Context, text: str) -> Shouted:
    """Say a text in capitals."""
    return Shouted(text=text.upper())
'''
USING = """
id: using
steps:
  - {id: loud, use: text.shout, with: {text: hello}}
  - {id: words, use: llm, prompt: [foo], with: {text: "{{ loud.text }}"}}
outputs: {loud: "{{ loud.text }}", text: "{{ words.text }}"}
"""


def put(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.proves("000-03")
@pytest.mark.proves("000-30")
def test_tool_and_prompt_of_a_person_work_without_a_change_of_the_program(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module is a file in a folder; a mistake in one does not keep the others from working."""
    put(empty_house.state / "tools", "shout.py", OWN)
    put(empty_house.state / "tools", "broken.py", "import nothing_of_this_name\n")
    put(empty_house.state / "tools", "taken.py", OWN.replace("text.shout", "time.now"))
    put(empty_house.state / "prompts", "foo.md", "---\ntags: [foo]\n---\nSpeak like a pirate.\n")
    empty_house.model.when("HELLO").say("Ahoy.")
    with empty_house.running(), empty_house.client() as client:
        announce(empty_house)
        shown = command(empty_house, monkeypatch)("tools", "--json").stdout
        listed: list[dict[str, Any]] = json.loads(shown)["tools"]
        run = client.post("/api/runs", json={"document": USING}).json()["run"]
        with client.stream("GET", f"/api/runs/{run}/events") as events:
            events.read()
        view = client.get(f"/api/runs/{run}").json()

    assert [one["about"] for one in listed if one["name"] == "text.shout"] == [
        "Say a text in capitals."
    ]
    assert view["outputs"] == {"loud": "HELLO", "text": "Ahoy."}
    system = empty_house.model.requests[-1].body["messages"][0]
    assert "Speak like a pirate." in system["content"]
