"""A state of which no backup can be made."""

from tests.integration.agent.conftest import House


def test_backup_that_cannot_be_made_says_why_and_leaves_nothing(house: House) -> None:
    """Each nightly try would leave a file, until the disk of the very state is full."""
    (house.state / "broken.db").write_bytes(b"this is no database" * 100)
    with house.client() as client:
        answer = client.get("/api/backup")

    assert answer.status_code == 500
    assert "broken.db cannot be read" in answer.json()["error"]["message"]
    assert [*house.state.glob(".archive-*")] == []
