"""`self_autonomy`: a scripted model writes workflows, and a person confirms each."""

import json
from typing import Any

import httpx2
import pytest

from tests.integration.agent.code.conftest import follow_until, prompts
from tests.integration.agent.conftest import House, Json

TEXT = "Write the word hello in capitals."
VALID = """id: shout
about: Gives a word.
steps:
  - {id: word, use: value, with: {value: HELLO}}
outputs: {text: "{{ word.value }}"}
"""
SECOND = VALID.replace("HELLO", "HELLO AGAIN")
WRONG = VALID.replace("use: value", "use: values")
FORBIDDEN = VALID.replace(
    "use: value, with: {value: HELLO}", "use: file.write, with: {path: a, text: b}"
).replace("word.value", "word.path")
CHAINED = VALID.replace(
    "use: value, with: {value: HELLO}", "use: workflow/autonomy, with: {text: x}"
).replace("word.value", "word.text")
PAST = """id: capitals
inputs: {text: text}
steps:
  - {id: a, use: file.read, with: {path: none.txt}}
"""


def said(document: str = "", *, answer: str = "", finished: bool = False) -> str:
    return json.dumps({"finished": finished, "answer": answer, "document": document})


def begin(client: httpx2.Client, **more: Any) -> str:
    inputs = {"text": TEXT, **more.pop("inputs", {})}
    answer = client.post("/api/runs", json={"self_autonomy": True, "inputs": inputs, **more})
    assert answer.is_success, answer.text
    return str(answer.json()["run"])


def waiting(client: httpx2.Client, run: str, path: str) -> Json:
    view = follow_until(client, run, "node.waiting", path)
    (step,) = [step for step in view["steps"] if step["path"] == path]
    asked: Json = step["facts"]["question"]
    return asked


def confirm(client: httpx2.Client, run: str, path: str, value: str) -> None:
    told = client.post(f"/api/runs/{run}/answer", json={"path": path, "value": value})
    assert told.is_success, told.text


def all_runs(client: httpx2.Client) -> list[Json]:
    runs: list[Json] = client.get("/api/runs").json()["runs"]
    return runs


@pytest.mark.proves("000-28")
def test_question_shows_what_would_run_and_nothing_runs_before_its_answer(house: House) -> None:
    """Graph, tools, grants, limits, worst case and document."""
    house.model.when("").say(said(VALID, answer="It gives the word."))

    with house.client() as client:
        run = begin(client)
        shown = waiting(client, run, "autonomy/confirm")["show"]
        runs = all_runs(client)
        confirm(client, run, "autonomy/confirm", "do not run")
        view = follow_until(client, run, "end")
        later = all_runs(client)

    assert [one["id"] for one in runs] == [one["id"] for one in later] == [run]
    assert view["outputs"]["run"] is None
    assert [node["use"] for node in shown["graph"]] == ["value"]
    assert (shown["tools"], shown["effects"]) == (["value"], ["pure"])
    assert shown["grants"] == ["pure", "llm", "read"]
    assert shown["limits"]["nodes"] == 400
    assert shown["bound"] == "steps: 1; model calls: 0"
    assert (shown["document"], shown["diff"]) == (VALID, "")


@pytest.mark.proves("000-24", "000-26", "000-27")
def test_confirmed_workflow_runs_as_a_child_that_asks_again_until_the_chain_ends(
    house: House,
) -> None:
    """The engine adds the next round; the model sees what the last one gave."""
    house.model.when("The workflow before in this chain").say(said(SECOND))
    house.model.when("").say(said(VALID))

    with house.client() as client:
        parent = begin(client, inputs={"max_rounds": 2}, answers={"confirm": "run"})
        view = follow_until(client, parent, "end")
        child = view["outputs"]["run"]
        again = waiting(client, child, "next/autonomy/confirm")
        confirm(client, child, "next/autonomy/confirm", "run")
        child_view = follow_until(client, child, "end")
        last = follow_until(client, child_view["outputs"]["run"], "end")

    top = [node["path"] for node in view["graph"]["nodes"] if not node["parent"]]
    assert top[:2] == ["start", "autonomy"]
    assert "-  - {id: word, use: value, with: {value: HELLO}}" in again["show"]["diff"]
    assert "+  - {id: word, use: value, with: {value: HELLO AGAIN}}" in again["show"]["diff"]
    steps = {step["path"]: step for step in child_view["steps"]}
    assert steps["work/word"]["output"] == {"value": "HELLO"}
    assert child != parent
    assert '"HELLO"' in prompts(house)[-1].partition("It gave:")[2]
    assert len(house.model.requests) == 2
    assert last["status"] == "done"
    assert "The chain has ended after 2 workflows." in last["outputs"]["text"]
    assert last["outputs"]["run"] is None


@pytest.mark.proves("000-25")
@pytest.mark.parametrize(
    ("first", "fault"),
    [
        (WRONG, "there is no tool 'values'"),
        (FORBIDDEN, "`workspace`, which is not granted"),
        (CHAINED, "workflow/autonomy cannot be used here"),
    ],
    ids=["wrong", "forbidden", "chained"],
)
def test_errors_of_the_compiler_are_in_the_next_prompt(
    house: House, first: str, fault: str
) -> None:
    """A second document that compiles is asked about; nothing ran before."""
    house.model.when("It does not compile").say(said(VALID))
    house.model.when("").say(said(first))

    with house.client() as client:
        run = begin(client, answers={"confirm": "do not run"})
        view = follow_until(client, run, "end")

    assert fault in prompts(house)[1]
    steps = {step["path"]: step for step in view["steps"]}
    assert steps["autonomy/confirm"]["input"]["show"]["document"] == VALID
    assert view["outputs"]["text"].strip() == "Nothing was started."


@pytest.mark.proves("000-25")
def test_document_that_never_compiles_fails_after_four_tries_with_all_diagnostics(
    house: House,
) -> None:
    """Each answer was wrong in another way, and the run tells every one."""
    wrong = house.model.when("")
    for number in range(6):
        wrong.say(said(VALID.replace("use: value", f"use: values{number}")))

    with house.client() as client:
        run = begin(client)
        view = follow_until(client, run, "end")
        runs = all_runs(client)

    assert view["status"] == "failed"
    assert len(house.model.requests) == 4
    for number in range(4):
        assert f"there is no tool 'values{number}'" in view["error"]
    assert len(runs) == 1


@pytest.mark.proves("000-28")
def test_nothing_is_started_where_nobody_can_answer(house: House) -> None:
    """A script that asks nobody has not agreed."""
    house.model.when("").say(said(VALID))

    with house.client() as client:
        run = begin(client, interactive=False)
        view = follow_until(client, run, "end")
        runs = all_runs(client)

    assert view["status"] == "failed"
    assert "Nobody can answer" in view["error"]
    assert len(runs) == 1


@pytest.mark.proves("000-07")
def test_digest_of_runs_like_the_request_is_in_the_prompt_with_their_ids(house: House) -> None:
    """What failed before must not be tried again; the question names what it is based on."""
    house.model.when("").say(said(VALID))

    with house.client() as client:
        body = {"document": PAST, "inputs": {"text": "Write hello in capitals please."}}
        past = client.post("/api/runs", json=body).json()["run"]
        follow_until(client, past, "end")
        shown = waiting(client, begin(client), "autonomy/confirm")["show"]

    (prompt,) = prompts(house)
    assert f"* Run {past} (capitals), failed: Write hello in capitals please." in prompt
    assert "none.txt" in prompt
    assert shown["based_on"] == [past]


def test_model_that_says_that_nothing_is_left_ends_the_chain(house: House) -> None:
    """Its answer is the result, and nobody is asked."""
    house.model.when("").say(said(finished=True, answer="HELLO"))

    with house.client() as client:
        view = follow_until(client, begin(client), "end")

    assert view["outputs"]["text"].strip() == "HELLO"
    assert view["outputs"]["finished"] is True


def test_request_with_a_workflow_of_its_own_is_refused(house: House) -> None:
    """The option and a workflow contradict each other."""
    with house.client() as client:
        answer = client.post("/api/runs", json={"self_autonomy": True, "workflow": "agent-turn"})

    assert answer.status_code in (400, 422)
    assert "neither a workflow nor a document" in answer.text


@pytest.mark.proves("000-24", "000-28")
def test_agent_starts_autonomy_after_a_person_has_confirmed(house: House) -> None:
    """The approval starts a run that asks again; its answer reaches the agent as a run id."""
    house.model.when("The request:").say(said(VALID))
    house.model.when("please tidy").call_tool("autonomy_start", {"text": TEXT})
    house.model.when('"run":').say("I have started it.")

    with house.client() as client:
        client.post("/api/conversations", json={"id": "c1"})
        turn = client.post("/api/conversations/c1/turns", json={"text": "please tidy"})
        assert turn.is_success, turn.text
        run, path = turn.json()["run"], "reply/turn[1]/approve[0]"
        asked = waiting(client, run, path)
        before = [one["id"] for one in all_runs(client)]
        confirm(client, run, path, "yes")
        view = follow_until(client, run, "end")
        (child,) = [one["id"] for one in all_runs(client) if one["id"] != run]
        shown = waiting(client, child, "autonomy/confirm")["show"]

    assert "autonomy.start" in asked["text"]
    assert before == [run]
    assert view["outputs"]["text"] == "I have started it."
    assert shown["document"] == VALID


def test_agent_starts_nothing_that_a_person_declines(house: House) -> None:
    """The model is told, and there is no other run."""
    house.model.when("please tidy").call_tool("autonomy_start", {"text": TEXT})
    house.model.when("did not approve").say("As you like.")

    with house.client() as client:
        client.post("/api/conversations", json={"id": "c1"})
        turn = client.post("/api/conversations/c1/turns", json={"text": "please tidy"})
        run, path = turn.json()["run"], "reply/turn[1]/approve[0]"
        waiting(client, run, path)
        confirm(client, run, path, "no")
        view = follow_until(client, run, "end")
        runs = all_runs(client)

    assert view["outputs"]["text"] == "As you like."
    assert len(runs) == 1


@pytest.mark.proves("000-24", "000-28")
def test_chat_request_with_self_autonomy_ends_with_the_question(house: House) -> None:
    """The answer names the run and how to answer; nothing has run."""
    house.model.when("").say(said(VALID))

    answer = house.ask(TEXT, self_autonomy=True)
    refused = house.ask(TEXT, model="workflow/summarize", self_autonomy=True)

    assert answer.status_code == 200, answer.text
    run = answer.headers["x-hearth-run"]
    text = answer.json()["choices"][0]["message"]["content"]
    assert "Run this workflow? It is number 1 of at most 3." in text
    assert f"hearth runs answer {run} autonomy/confirm" in text
    with house.client() as client:
        (row,) = all_runs(client)
        view = client.get(f"/api/runs/{run}").json()
    assert (row["id"], row["workflow"]) == (run, "autonomy")
    top = [node["path"] for node in view["graph"]["nodes"] if not node["parent"]]
    assert top[:2] == ["start", "autonomy"]
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "self_autonomy"


@pytest.mark.proves("003-22")
def test_stored_prompts_that_fit_the_request_are_shown_to_the_author(house: House) -> None:
    """Also one that a person has just stored."""
    house.model.when("").say(said(VALID))
    text = "---\ntags: [capitals]\n---\nWrite the text in capitals."

    with house.client() as client:
        stored = client.put("/api/prompts/in-capitals", json={"document": text})
        assert stored.is_success, stored.text
        run = begin(client)
        waiting(client, run, "autonomy/confirm")

    assert "* prompt: [capitals]: Write the text in capitals." in prompts(house)[0]
