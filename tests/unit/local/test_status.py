"""`hearth status`, as a person types it."""

from pathlib import Path

from typer.testing import CliRunner

from hearth.cli import build_cli


def test_status_of_two_things_at_once_is_refused(tmp_path: Path) -> None:
    """One of the two would be passed over, and its health taken for the other's."""
    words = ["status", "--state-dir", str(tmp_path), "-i", "inventory/home.yaml"]
    result = CliRunner().invoke(build_cli(), words)

    assert result.exit_code == 2
    assert "only one of both" in " ".join(result.output.replace("│", " ").split())
