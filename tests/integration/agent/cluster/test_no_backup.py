"""What of a state no backup can be made of, or need be."""

import io
import tarfile

from tests.integration.agent.conftest import House


def test_backup_that_cannot_be_made_says_why_and_leaves_nothing(house: House) -> None:
    """Each nightly try would leave a file, until the disk of the very state is full."""
    (house.state / "broken.db").write_bytes(b"this is no database" * 100)
    with house.client() as client:
        answer = client.get("/api/backup")

    assert answer.status_code == 500
    assert "broken.db cannot be read" in answer.json()["error"]["message"]
    assert [*house.state.glob(".archive-*")] == []


def test_archive_that_is_none_is_told_without_a_name_that_nobody_gave(house: House) -> None:
    """The file in which the service keeps it for a moment means nothing to who has sent it."""
    with house.client() as client:
        answer = client.post("/api/restore", content=b"a letter")

    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith(
        "The uploaded file is damaged, or no archive"
    )


def test_list_of_running_servers_is_left_out_of_a_backup(house: House) -> None:
    """On another machine the gateway would take it for the servers that run there."""
    (house.state / "gateway-instances.json").write_text("[]", encoding="ascii")
    with house.client() as client:
        content = client.get("/api/backup").raise_for_status().content

    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert "gateway-instances.json" not in archive.getnames()


def test_packages_of_programs_are_left_out_of_a_backup(house: House) -> None:
    """They are gigabytes that can be fetched again, and without their links they do not work."""
    place = house.state / "packages" / ("a" * 24) / "bin"
    place.mkdir(parents=True)
    (place / "pip").write_text("#!python", encoding="ascii")
    with house.client() as client:
        content = client.get("/api/backup").raise_for_status().content

    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert [name for name in archive.getnames() if name.startswith("packages")] == []
