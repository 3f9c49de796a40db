"""What one schedule that cannot be started does to the others."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pipecatapp.schedules.starting import Starter
from pipecatapp.schedules.store import NewSchedule, Schedules
from pipecatapp.workflow import Ledger


async def test_zone_that_is_known_no_more_keeps_no_other_schedule_from_its_start(
    tmp_path: Path,
) -> None:
    """A backup restored in an image without zones must not end every schedule in silence."""
    ledger = Ledger(tmp_path / "ledger.db")
    begun: list[str] = []

    async def start(workflow: str, inputs: Mapping[str, Any], **_: Any) -> str:
        begun.append(workflow)
        return f"run of {workflow}"

    await ledger.hold(lambda _event: None)
    try:
        schedules = Schedules(ledger)
        for told in (
            {"workflow": "a", "cron": "0 8 * * *", "zone": "Europe/Berlin"},
            {"workflow": "b", "every": 60},
        ):
            await schedules.put(str(told["workflow"]), NewSchedule.model_validate(told))
        lost = "UPDATE schedule SET zone = 'Europe/Nowhere' WHERE id = 'a'"
        await ledger.submit("", [(lost, ())])
        later = datetime.now(UTC) + timedelta(days=2)

        await Starter(schedules, start, now=lambda: later).start_due()

        assert begun == ["b"]
        assert "Europe/Nowhere" in (schedules.get("a").error or "")
    finally:
        await ledger.let_go()
        ledger.close()
