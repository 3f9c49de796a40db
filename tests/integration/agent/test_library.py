"""What people keep in the state directory."""

import subprocess
from pathlib import Path

from tests.integration.agent.conftest import House
from tests.shown import Shown

CHEF = """
kind: workflow
id: cook
inputs: {messages: messages}
steps:
  - id: answer
    use: llm
    model: default
    prompt: [chef]
    with: {messages: "{{ inputs.messages }}"}
outputs: {text: "{{ answer.text }}"}
"""


def test_workflow_and_prompt_of_a_person_are_offered_at_the_next_start(
    empty_house: House, shown: Shown, tmp_path: Path
) -> None:
    """A house is not the same as the next one; its documents survive an update of Hearth."""
    share = tmp_path / "home" / ".local" / "share"
    share.mkdir(parents=True)
    (share / "hearth").symlink_to(empty_house.state)
    subprocess.run(
        ["bash", "-euc", shown.take("docs/howto/write-a-workflow.md")],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")}, check=True,
    )  # fmt: skip
    (empty_house.state / "workflows").mkdir()
    for name, text in (("cook.yaml", CHEF), ("torn.yaml", "kind: workflow\nid: [torn")):
        (empty_house.state / "workflows" / name).write_text(text, encoding="utf-8")

    with empty_house.running(), empty_house.client() as client:
        models = [model["id"] for model in client.get("/v1/models").json()["data"]]
        answer = empty_house.ask("What shall I do with stale bread?", model="workflow/cook")

    assert "workflow/cook" in models
    assert answer.status_code == 200
    system = empty_house.model.requests[0].body["messages"][0]
    assert system["content"].startswith("You are a cook who wastes nothing.")


def test_workflow_that_cannot_run_is_told_when_somebody_asks_it(empty_house: House) -> None:
    """It does not keep the service from starting, and it is not silent either."""
    (empty_house.state / "workflows").mkdir()
    text = CHEF.replace("use: llm", "use: lmm")
    (empty_house.state / "workflows" / "cook.yaml").write_text(text, encoding="utf-8")

    with empty_house.running():
        answer = empty_house.ask("hello", model="workflow/cook")

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_document")
    assert "llm" in answer.json()["error"]["message"]


PROGRAM = """
steps:
  - id: make
    use: code.run
    with: {code: "print(1)"}
"""


def test_models_tell_what_a_key_must_open_for_them(empty_house: House) -> None:
    """A key for talking must not start what runs programs or leaves the house."""
    (empty_house.state / "workflows").mkdir()
    cook = CHEF.replace("    prompt: [chef]\n", "")
    build = cook.replace("id: cook", "id: build").replace("\nsteps:\n", PROGRAM)
    for name, text in (("cook.yaml", cook), ("build.yaml", build)):
        (empty_house.state / "workflows" / name).write_text(text, encoding="utf-8")

    with empty_house.running(), empty_house.client() as client:
        models = client.get("/v1/models").json()["data"]
        one = client.get("/v1/models/workflow/build").json()

    scopes = {model["id"]: model["scope"] for model in models}
    assert scopes["workflow/cook"] == scopes["workflow/summarize"] == "chat"
    assert scopes["agent"] == "workflows"
    assert scopes["workflow/build"] == one["scope"] == "exec"


TALKER = """
id: {name}
inputs: {{messages: messages}}
{head}
steps:
  - {{id: said, {node}}}
outputs: {{text: x}}
"""
AGENT = "use: agent, with: {{model: auto, messages: '{{{{ inputs.messages }}}}', tools: {tools}}}"
NEEDED = {
    "words": ("use: value, with: {value: x}", "chat"),
    "clock": (AGENT.format(tools="[time.now]"), "chat"),
    "reads": ("use: file.read, with: {path: letter.txt}", "workflows"),
    "lists": ("use: file.list", "workflows"),
    "hears": ("use: speech.hear, with: {path: letter.wav}", "workflows"),
    "writes": ("use: file.write, with: {path: letter.txt, text: x}", "workflows"),
    "reader": (AGENT.format(tools="[file.read]"), "workflows"),
    "servers": (AGENT.format(tools="['mcp/*']"), "workflows"),
    "pattern": (AGENT.format(tools="['code.*']"), "exec"),
    "any-tool": (AGENT.format(tools="'{{ inputs.messages }}'"), "exec"),
}


def test_key_for_talking_opens_no_workflow_that_touches_files(empty_house: House) -> None:
    """Reading a file has the effect `read`, as reading the clock has; only one of them is words."""
    (empty_house.state / "workflows").mkdir()
    for name, (node, _) in NEEDED.items():
        text = TALKER.format(name=name, node=node, head="")
        (empty_house.state / "workflows" / f"{name}.yaml").write_text(text, encoding="utf-8")
    allowed = TALKER.format(name="allowed", node=NEEDED["any-tool"][0], head="allow: [llm]")
    (empty_house.state / "workflows" / "allowed.yaml").write_text(allowed, encoding="utf-8")

    with empty_house.running(), empty_house.client() as client:
        models = client.get("/v1/models").json()["data"]

    scopes = {model["id"].removeprefix("workflow/"): model["scope"] for model in models}
    assert {name: scopes[name] for name in NEEDED} == {n: scope for n, (_, scope) in NEEDED.items()}
    assert scopes["allowed"] == "workflows", "it may be given any tool that has no effect but llm"


def test_workflow_that_is_no_conversation_is_no_model(empty_house: House) -> None:
    """A chat program must not offer what cannot be talked to."""
    (empty_house.state / "workflows").mkdir()
    ends = {"add": ("n: integer", "text"), "mute": ("messages: messages", "n")}
    for name, (takes, gives) in ends.items():
        text = f"id: {name}\ninputs: {{{takes}}}\nsteps: []\noutputs: {{{gives}: x}}\n"
        (empty_house.state / "workflows" / f"{name}.yaml").write_text(text, encoding="utf-8")

    with empty_house.running(), empty_house.client() as client:
        known = {one["id"] for one in client.get("/api/workflows").json()["workflows"]}
        models = {model["id"] for model in client.get("/v1/models").json()["data"]}
        answers = [empty_house.ask("x", model=f"workflow/{name}").status_code for name in ends]

    assert known >= ends.keys()
    assert models.isdisjoint({"workflow/add", "workflow/mute"})
    assert answers == [404, 404]
