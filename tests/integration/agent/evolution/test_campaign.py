"""A campaign on real runs: search, gate, proposal, promotion, rollback."""

import json

from prompt_engineering.cases import Case, Check
from prompt_engineering.evaluation import RunEvaluator
from prompt_engineering.genome import Genome
from prompt_engineering.opening import campaign_of
from tests.integration.agent.conftest import House
from tests.integration.agent.evolution.conftest import (
    PROMPT,
    archive_folder,
    client_of,
    options_of,
)


async def test_campaign_proposes_a_better_prompt_that_a_person_makes_live(started: House) -> None:
    """The whole way, with every decision measured on runs of the ledger."""
    async with client_of(started) as client:
        campaign = await campaign_of(client, options_of(started))

        result = await campaign.run()

        assert result.decision == "promote"
        live = await client.request("GET", "/api/prompts/classify")
        assert live["text"] == PROMPT
        found = await client.request("GET", "/api/evolution/classify-001")
        assert found["proposal"]["evidence"]["losses"] == 0
        assert found["proposal"]["evidence"]["wins"] == 8

        await client.request("POST", "/api/evolution/classify-001/promote", {"by": "Ada"})
        live = await client.request("GET", "/api/prompts/classify")
        assert "full sentences" not in live["text"]

        await client.request("DELETE", "/api/evolution/promotions/classify")
        live = await client.request("GET", "/api/prompts/classify")
        assert live["text"] == PROMPT
    gate = json.loads((archive_folder(started) / "gate.json").read_text())
    assert [pair["new"] for pair in gate["pairs"]] == [True] * 8


async def test_measured_agent_is_refused_tools_that_change_something(house: House) -> None:
    """The agent is offered the tool as in a live run, but its call fails; the run goes on."""
    house.model.when(lambda request: request.messages[-1].role == "tool").say("Not saved.")
    house.model.when("remember").call_tool("note_save", {"text": "Figs are sweet."})
    case = Case(
        id="notes", workflow="agent-turn", inputs={"text": "remember figs"},
        checks=(Check(equals="Not saved."),),
    )  # fmt: skip
    genome = Genome(prompt="agent", tags=("agent",), text="You are measured.")
    async with client_of(house) as client:
        outcome = await RunEvaluator(client).evaluate(case, genome)

        notes = (await client.request("GET", "/api/notes"))["notes"]
        live = await client.request("GET", "/api/prompts/agent")

    assert outcome.passed, outcome.message
    assert notes == []
    first, second = (request.body for request in house.model.requests)
    assert "You are measured." in str(first["messages"][0])
    assert "note_save" in str(first["tools"])
    assert "not granted" in str(second["messages"][-1])
    assert live["text"] != "You are measured."
