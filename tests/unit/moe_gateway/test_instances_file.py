"""The file with the servers behind the gateway."""

from pathlib import Path

from structlog.testing import capture_logs

from moe_gateway.routing.instances_file import InstancesFile


def test_log_of_an_unusable_file_names_the_fields_and_no_value(tmp_path: Path) -> None:
    """A key in the wrong field must not get into the log."""
    path = tmp_path / "instances.json"
    path.write_text('[{"url": 1, "api_key": "sk-hearth-secret"}]', encoding="utf-8")

    with capture_logs() as logs:
        assert InstancesFile(path).changed() is None

    (entry,) = logs
    assert entry["event"] == "instances_file_unusable"
    assert (0, "api_key") in [place for place, _ in entry["faults"]]
    assert "sk-hearth-secret" not in str(entry)
