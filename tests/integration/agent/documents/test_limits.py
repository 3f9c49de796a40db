"""Limits of programs: set by documents, bounded by the settings, and never chosen by a model."""

from typing import Any

import httpx2

from tests.integration.agent.conftest import House

AGENT = """
id: coder
steps:
  - id: reply
    use: agent
    with:
      text: work
      tools: [code.run]
      tool_inputs: {code.run: {seconds: 20, memory_mb: 600, environment: {WHO: author}}}
outputs: {text: "{{ reply.answer }}"}
"""
NODE = """
id: node
steps: [{id: work, use: code.run, with: {code: "print(1)", LIMIT}}]
outputs: {text: "{{ work.stdout }}"}
"""
LIMITS = ("memory_mb", "processes", "seconds", "disk_mb", "environment", "secrets", "image")


def ran(client: httpx2.Client, document: str) -> dict[str, Any]:
    """A run of a document, as it ended."""
    body = {"document": document, "interactive": False}
    run = client.post("/api/runs", json=body).raise_for_status().json()["run"]
    with client.stream("GET", f"/api/runs/{run}/events") as events:
        events.read()
    view: dict[str, Any] = client.get(f"/api/runs/{run}").json()
    return view


def test_model_cannot_choose_the_limits_of_its_program(house: House) -> None:
    """64 GiB and 4,096 processes are neither offered nor taken; what the document sets is used."""
    house.model.when("set by the document, not by you").say("Then not.")
    house.model.when("author").say("Done.")
    greedy = {"memory_mb": 65536, "processes": 4096, "seconds": 3600, "environment": {"WHO": "me"}}
    modest = {"code": "import os; print(os.environ['WHO'])"}
    house.model.when("work").call_tools(("code_run", modest | greedy), ("code_run", modest))
    with house.client() as client:
        view = ran(client, AGENT)

    [offered] = house.model.requests[0].body["tools"]
    properties = offered["function"]["parameters"]["properties"]
    assert set(properties) == {"code", "language", "command", "stdin"}
    assert set(properties).isdisjoint(LIMITS)
    results = [
        m["content"] for m in house.model.requests[1].body["messages"] if m["role"] == "tool"
    ]
    assert "environment, memory_mb, processes, seconds: set by the document" in results[0]
    [step] = [step for step in view["steps"] if step["tool"] == "code.run"]
    assert step["input"] == modest | {
        "seconds": 20, "memory_mb": 600, "environment": {"WHO": "author"},
    }  # fmt: skip
    assert step["output"]["stdout"] == "author\n"


def test_ceiling_of_the_settings_holds_for_documents_and_for_agents(empty_house: House) -> None:
    """Whoever owns the machine has the last word; a limit nobody set is lowered to it."""
    empty_house.more["code_ceiling"] = {"memory_mb": 512, "seconds": 30}
    empty_house.model.when("Above the ceiling").say("Too much.")
    empty_house.model.when("work").call_tool("code_run", {"code": "print(1)"})
    with empty_house.running(), empty_house.client() as client:
        views = [
            ran(client, NODE.replace("LIMIT", limit))
            for limit in ("memory_mb: 600", "seconds: 31", "memory_mb: 512", "language: python")
        ]
        agent = ran(client, AGENT)

    told = (
        "Above the ceiling of this instance (PIPECATAPP_CODE_CEILING): memory_mb 600, at most 512."
    )
    assert [view["status"] for view in views] == ["failed", "failed", "done", "done"]
    assert told in views[0]["error"]
    assert agent["outputs"] == {"text": "Too much."}


def test_inputs_that_a_document_sets_for_a_tool_are_checked_before_it_runs(house: House) -> None:
    """A limit with a typing mistake in its name would be no limit."""
    wrong = AGENT.replace("memory_mb: 600", "memory: 600").replace("seconds: 20", "seconds: soon")
    strange = AGENT.replace("{code.run: {", "{code.rum: {")
    with house.client() as client:
        texts = [
            client.post("/api/plan", json={"document": document}).json()["text"]
            for document in (wrong, strange)
        ]

    assert "there is no input 'memory'. Did you mean 'memory_mb'?" in texts[0]
    assert "seconds: Input should be a valid number" in texts[0]
    assert "there is no tool 'code.rum'. Did you mean 'code.run'?" in texts[1]
