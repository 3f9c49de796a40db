"""`hearth status`, as a person types it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp
from typer.testing import CliRunner

from hearth.cli import build_cli
from hearth.local.commands.schedules import schedules_of
from hearth.service.state import Instance


def test_status_of_two_things_at_once_is_refused(tmp_path: Path) -> None:
    """One of the two would be passed over, and its health taken for the other's."""
    words = ["status", "--state-dir", str(tmp_path), "-i", "inventory/home.yaml"]
    result = CliRunner().invoke(build_cli(), words)

    assert result.exit_code == 2
    assert "not both" in " ".join(result.output.replace("│", " ").split())


def test_answer_that_is_no_list_of_schedules_is_no_traceback(
    serve: Callable[[ASGIApp], str], tmp_path: Path
) -> None:
    """Another program may have taken the port; the health of all others is still to be shown."""
    (tmp_path / "key").write_text("sk-hearth-1", encoding="ascii")
    instance = Instance(
        pid=1, started=datetime.now(UTC), web=serve(PlainTextResponse("<html>")), api="",
        key_file=tmp_path / "key", services=[],
    )  # fmt: skip

    with pytest.raises(ValidationError):
        schedules_of(instance)
