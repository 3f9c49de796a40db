"""What people keep: stored tasks, prompts and projects, in a real agent service."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import Hearth, announce, command

Json = dict[str, Any]
NAMED = """invoices letters recipes gardens bicycles trains museums weather birds mushrooms chess
taxes rents maps songs poems dreams lamps chairs bread coffee honey glaciers rivers bridges"""
TOPICS = NAMED.split()
KINDS = ("review", "summary")


def task(topic: str, kind: str) -> str:
    return f"""
kind: workflow
id: {kind}-of-{topic}
tags: [{kind}, {topic}]
about: Writes a {kind} about {topic}.
inputs: {{text: {{type: text, default: ""}}}}
steps: [{{id: words, use: llm, with: {{text: "A {kind} about {topic}: {{{{ inputs.text }}}}"}}}}]
outputs: {{text: "{{{{ words.text }}}}"}}
"""


def keep(client: httpx2.Client, document: str) -> Json:
    answer = client.post("/api/tasks", json={"document": document})
    assert answer.status_code == 201, answer.text
    kept: Json = answer.json()
    return kept


def found(client: httpx2.Client, **asked: Any) -> list[str]:
    tasks = client.get("/api/tasks", params=asked).raise_for_status().json()["tasks"]
    return [one["id"] for one in tasks]


def ran(client: httpx2.Client, path: str, body: Json) -> Json:
    run = client.post(path, json=body).raise_for_status().json()["run"]
    with client.stream("GET", f"/api/runs/{run}/events") as events:
        events.read()
    view: Json = client.get(f"/api/runs/{run}").json()
    return view


def test_tasks_that_are_kept_at_the_same_moment_are_versions_of_one(house: House) -> None:
    """Two windows, or a script: nobody is told that the ledger is broken."""
    documents = [task("tea", "review").replace("Writes", f"{n} writes") for n in range(6)]
    with house.client() as client, ThreadPoolExecutor(6) as people:
        kept = list(people.map(lambda document: keep(client, document), documents))
        told = client.get("/api/tasks/review-of-tea").json()["versions"]

    assert sorted(one["version"] for one in kept) == [1, 2, 3, 4, 5, 6]
    assert told == [6, 5, 4, 3, 2, 1]


def test_task_is_no_way_to_a_file(house: House) -> None:
    """What a client calls the file of a task is words for people, and never opened or removed."""
    named, document = str(house.state / "service_key"), task("tea", "review")
    with house.client() as client:
        client.post("/api/tasks", json={"document": document, "file": named}).raise_for_status()
        told = client.get("/api/workflows/review-of-tea/document").json()
        edits = [{"op": "set", "path": ".about", "value": "Mine."}]
        edited = client.patch(
            "/api/workflows/review-of-tea",
            json={"operations": edits},
            headers={"if-match": told["etag"]},
        )
        removed = client.delete(
            "/api/workflows/review-of-tea/document", headers={"if-match": told["etag"]}
        )

    assert (told["document"], told["kept"]) == (document, True)
    assert [edited.status_code, removed.status_code] == [422, 422]
    assert "stored task" in edited.json()["error"]["message"]
    assert (house.state / "service_key").exists()


@pytest.mark.proves("003-04")
def test_task_is_found_among_fifty_and_becomes_a_variant(house: House) -> None:
    """A good task is written once; who needs it next year finds it by what it does."""
    house.model.when(lambda _request: True).say("Bees.")
    with house.client() as client:
        for topic in TOPICS:
            for kind in KINDS:
                keep(client, task(topic, kind))
        by_words = found(client, q="reviews about mushroom")
        by_both = found(client, q="honeys", tag=["summary"])
        by_tags = found(client, tag=["chess"])
        body = {"id": "short-summary-of-honey", "set": {"words.with.max_tokens": 40}}
        client.post("/api/tasks/summary-of-honey/variants", json=body).raise_for_status()
        view = ran(client, "/api/runs", {"workflow": "short-summary-of-honey"})
        base = client.get("/api/tasks/summary-of-honey").json()

    assert len(TOPICS) * len(KINDS) == 50
    assert by_words[0] == "review-of-mushrooms"
    assert by_both == ["summary-of-honey"]
    assert sorted(by_tags) == ["review-of-chess", "summary-of-chess"]
    assert view["outputs"] == {"text": "Bees."}
    assert house.model.requests[-1].body["max_tokens"] == 40
    assert base["document"] == task("honey", "summary")


def test_versions_of_a_task_stay_and_survive_a_restart(empty_house: House) -> None:
    """Who changes a task can look at what it was, and a variant follows what it is."""
    first = task("rivers", "summary")
    second = first.replace("A summary", "A long summary")
    with empty_house.running(), empty_house.client() as client:
        made = keep(client, first)
        client.post("/api/tasks/summary-of-rivers/variants", json={"id": "mine"})
        again = keep(client, first)
        changed = keep(client, second)
    with empty_house.running(), empty_house.client() as client:
        empty_house.model.when("A long summary").say("Long.")
        page = client.get("/api/tasks/summary-of-rivers").json()
        old = client.get("/api/tasks/summary-of-rivers", params={"version": 1}).json()
        view = ran(client, "/api/runs", {"workflow": "mine"})
        gone = client.get("/api/tasks/summary-of-rivers", params={"version": 3})

    assert [made["version"], again["version"], changed["version"]] == [1, 1, 2]
    assert (page["version"], page["versions"], page["document"]) == (2, [2, 1], second)
    assert old["document"] == first
    assert view["outputs"] == {"text": "Long."}
    assert gone.status_code == 404


@pytest.mark.proves("003-17")
def test_conversation_of_a_task_stays_with_it_over_a_restart(empty_house: House) -> None:
    """A task is a piece of work with a history, and not a single call."""
    document = """
kind: workflow
id: talk
tags: [talk]
inputs: {text: text, conversation: {type: text, default: ""}}
steps:
  - {id: before, use: conversation.recall, with: {conversation: "{{ inputs.conversation }}"}}
  - id: words
    use: llm
    with: {messages: "{{ before.messages + [{'role': 'user', 'content': inputs.text}] }}"}
outputs: {text: "{{ words.text }}"}
"""
    empty_house.model.when("My name is Ada").say("Good day.")
    empty_house.model.when("What is my name").say("Ada.")
    with empty_house.running(), empty_house.client() as client:
        keep(client, document)
        ran(client, "/api/tasks/talk/runs", {"inputs": {"text": "My name is Ada."}})
    with empty_house.running(), empty_house.client() as client:
        view = ran(client, "/api/tasks/talk/runs", {"inputs": {"text": "What is my name?"}})

    assert view["conversation"] == "task/talk"
    assert "My name is Ada." in json.dumps(empty_house.model.requests[-1].body["messages"])


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (task("bread", "review").replace("tags: [review, bread]", "tags: []"), "`tags`"),
        (task("bread", "review").replace("review-of-bread", "agent-turn"), "not a task"),
        (task("bread", "review").replace("use: llm", "use: lmm"), "Did you mean 'llm'?"),
    ],
)
def test_task_that_nobody_could_find_or_run_is_refused(
    house: House, document: str, told: str
) -> None:
    """The library holds what works."""
    with house.client() as client:
        answer = client.post("/api/tasks", json={"document": document})

    assert answer.status_code == 422
    assert told in answer.json()["error"]["message"]


PROMPTS = {
    "code": "---\ntags: [code]\n---\nWrite code.\n",
    "code-python": "---\ntags: [code, python]\n---\nFollow PEP 8.\n",
    "code-qt": "---\ntags: [code, python, pyqt]\n---\nUse signals and slots for widgets.\n",
    "code-cpp": "---\ntags: [code, cpp, unreal]\n---\nUse the engine's containers.\n",
}


@pytest.mark.proves("003-19")
def test_prompt_applies_when_all_of_its_tags_are_asked_for(house: House) -> None:
    """A hint for one library must not reach a program that does not use it."""
    house.model.when(lambda _request: True).say("ok")
    with house.client() as client:
        for name, text in PROMPTS.items():
            client.put(f"/api/prompts/{name}", json={"document": text}).raise_for_status()

        def applying(*tags: str, **asked: str) -> list[str]:
            listed = client.get("/api/prompts", params={"tag": list(tags), **asked}).json()
            return [one["id"] for one in listed["prompts"]]

        asked = {
            tags: applying(*tags.split()) for tags in ("code python", "code python pyqt", "python")
        }
        by_words = applying(q="widget signals")
        node = "{id: a, use: llm, prompt: [code, python], with: {text: hello}}"
        ran(client, "/api/runs", {"document": f"id: coding\nsteps: [{node}]\n"})

    assert asked == {
        "code python": ["code", "code-python"],
        "code python pyqt": ["code", "code-python", "code-qt"],
        "python": [],
    }
    assert by_words == ["code-qt"]
    system = house.model.requests[-1].body["messages"][0]["content"]
    assert system.startswith("Write code.\n\nFollow PEP 8.")
    assert "widgets" not in system


def test_prompt_of_a_person_stands_before_the_shipped_one_until_it_is_removed(
    house: House,
) -> None:
    """Nobody must edit the program to change how it speaks."""
    own = "---\ntags: [summarize]\n---\nIn rhymes.\n"
    with house.client() as client:
        shipped = client.get("/api/prompts/summarize").json()
        wrong = client.put("/api/prompts/summarize", json={"document": "no tags"})
        client.put("/api/prompts/summarize", json={"document": own}).raise_for_status()
        kept = client.get("/api/prompts/summarize").json()
        client.delete("/api/prompts/summarize").raise_for_status()
        back = client.get("/api/prompts/summarize").json()
        again = client.delete("/api/prompts/summarize")

    assert wrong.status_code == 422
    assert (kept["text"], kept["kept"]) == ("In rhymes.", True)
    assert back == shipped
    assert again.status_code == 404


PROJECT = """
kind: project
id: clock
vision: A clock that children can read.
specifications: [Shows the time, Works without a network]
languages: [python]
interfaces: [PyQt 6 in a virtual environment]
platform: Raspberry Pi
repository: /home/ada/clock
commands: {build: echo built > made, test: echo all is well, run: python -m clock}
assets: {source: [src], config: [settings.toml], art: [faces]}
style: Short functions.
context: [README.md]
models: {coder: {use: [big], privacy: any}}
secrets: {weather: "env:WEATHER_KEY"}
"""
OF_PROJECT = """
id: about-clock
project: clock
steps:
  - id: words
    use: llm
    model: coder
    with: {text: "{{ project.vision }} In {{ project.languages[0] }}, for {{ project.platform }}."}
  - {id: build, use: code.run, with: {code: "{{ project.commands.build }}", language: sh}}
  - {id: test, use: code.run, with: {code: "{{ project.commands.test }}", language: sh}}
outputs:
  text: "{{ words.text }}"
  tested: "{{ test.stdout }}"
  built: "{{ build.files[0].path }}"
  all: "{{ project }}"
"""
LEAKING = """
kind: project
id: leaking
secrets: {weather: sk-0123456789}
"""


@pytest.mark.proves("003-16")
def test_workflow_reads_its_project_and_asks_the_models_of_it(empty_house: House) -> None:
    """What is true of the work is said once; a key never stands in what a model or run sees."""
    folder = empty_house.state / "projects"
    folder.mkdir()
    (folder / "clock.yaml").write_text(PROJECT, encoding="utf-8")
    (folder / "leaking.yaml").write_text(LEAKING, encoding="utf-8")
    empty_house.model.when("A clock that children can read.").say("Yes.")
    empty_house.more = {"model_roles": {"coder": ["small"]}}
    with empty_house.running(), empty_house.client() as client:
        view = ran(client, "/api/runs", {"document": OF_PROJECT})
        plans = [
            client.post("/api/plan", json={"document": document}).json()["text"]
            for document in (
                OF_PROJECT.replace("project: clock", "project: clocks"),
                OF_PROJECT.replace("project.vision", "project.version"),
                OF_PROJECT.replace("project: clock\n", ""),
            )
        ]
        listed = client.get("/api/projects").json()["projects"]

    assert view["error"] is None
    outputs = view["outputs"]
    assert (outputs["text"], outputs["tested"].strip()) == ("Yes.", "all is well")
    assert outputs["built"] == "made"
    assert outputs["all"] == listed[0]["values"]
    assert outputs["all"]["secrets"] == {"weather": "env:WEATHER_KEY"}
    assert outputs["all"]["assets"]["art"] == ["faces"]
    assert all(outputs["all"].values())
    asked = empty_house.model.requests[-1].body
    assert asked["model"] == "big"
    assert "In python, for Raspberry Pi." in json.dumps(asked["messages"])
    assert "there is no project 'clocks'. Did you mean 'clock'?" in plans[0]
    assert "there is no 'version'" in plans[1]
    assert "there is no 'project' here" in plans[2]
    assert [one["id"] for one in listed] == ["clock"]


@pytest.mark.parametrize("place", ["instance", "ledger"])
def test_shell_keeps_lists_and_runs(
    place: str, empty_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hearth tasks`, `prompts` and `projects` say the same with an instance and without one."""
    (empty_house.state / "projects").mkdir()
    (empty_house.state / "projects" / "clock.yaml").write_text(PROJECT, encoding="utf-8")
    empty_house.model.when("about maps").say("North is up.")
    hearth = command(empty_house, monkeypatch)
    if place == "ledger":
        assert_shell_keeps(hearth, tmp_path)
        return
    with empty_house.running():
        announce(empty_house)
        assert_shell_keeps(hearth, tmp_path)


def assert_shell_keeps(hearth: Hearth, folder: Path) -> None:
    (folder / "maps.yaml").write_text(task("maps", "review"), encoding="utf-8")
    (folder / "code.md").write_text(PROMPTS["code"], encoding="utf-8")

    def listed(noun: str, *words: str) -> list[str]:
        return [one["id"] for one in json.loads(hearth(noun, *words, "--json").stdout)[noun]]

    assert hearth("tasks", "add", str(folder / "maps.yaml")).exit_code == 0
    varied = hearth("tasks", "copy", "review-of-maps", "mine", "--set", "words.with.max_tokens=5")
    assert varied.exit_code == 0, varied.output
    assert listed("tasks", "--search", "maps", "--tag", "review") == ["mine", "review-of-maps"]
    assert (
        hearth("tasks", "show", "review-of-maps").stdout == task("maps", "review").rstrip() + "\n"
    )
    assert hearth("tasks", "run", "review-of-maps").stdout == "North is up.\n"
    assert hearth("tasks", "remove", "mine").exit_code == 0
    assert listed("tasks") == ["review-of-maps"]
    assert hearth("tasks", "show", "mine").exit_code == 1
    assert hearth("prompts", "add", str(folder / "code.md")).exit_code == 0
    assert listed("prompts", "--tag", "code") == ["code"]
    assert hearth("prompts", "show", "code").stdout == "Write code.\n"
    assert hearth("prompts", "remove", "code").exit_code == 0
    assert listed("projects") == ["clock"]
    assert "Raspberry Pi" in hearth("projects", "show", "clock").stdout
