"""A campaign on real runs: search, gate, proposal, promotion, rollback."""

import json

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
