"""The API of campaigns: damaged files, and keys with fewer rights."""

import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pipecatapp.application.callers import CALLER
from tests.integration.agent.conftest import House


@pytest.fixture
def campaign(house: House) -> Path:
    """A campaign with two candidates, one of which is damaged."""
    folder = house.state / "evolution" / "campaigns" / "answer-001"
    (folder / "candidates").mkdir(parents=True)
    (folder / "campaign.json").write_text(json.dumps({"campaign": "answer-001"}))
    (folder / "candidates" / "c00000.json").write_text(json.dumps({"id": "c00000"}))
    (folder / "candidates" / "c00001.json").write_text('{"id": "c0')
    return folder


def test_damaged_candidate_is_left_out_and_logged(house: House, campaign: Path) -> None:
    """The others are still shown, and the log names the file."""
    with house.client() as client, capture_logs() as logs:
        found = client.get("/api/evolution/answer-001").raise_for_status().json()

    assert found["candidates"] == [{"id": "c00000"}]
    paths = [one["path"] for one in logs if one["event"] == "campaign_file_damaged"]
    assert paths == [str(campaign / "candidates" / "c00001.json")]


def test_campaign_with_a_damaged_head_is_refused(house: House, campaign: Path) -> None:
    """It is not in the list, and its page gets a clear answer."""
    (campaign / "campaign.json").write_text("{")

    with house.client() as client:
        assert client.get("/api/evolution").json()["campaigns"] == []
        refused = client.get("/api/evolution/answer-001")

    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "campaign_not_found")


def test_issued_key_neither_reads_nor_promotes(house: House, campaign: Path) -> None:
    """A promoted prompt is live for everybody, so only the administrator confirms it."""
    with house.client() as client:
        guest = {CALLER: "guest"}
        answers = [
            client.get("/api/evolution/answer-001", headers=guest),
            client.post("/api/evolution/answer-001/promote", json={"by": "x"}, headers=guest),
            client.delete("/api/evolution/promotions/answer", headers=guest),
        ]

    codes = {(one.status_code, one.json()["error"]["code"]) for one in answers}
    assert codes == {(403, "not_administrator")}
