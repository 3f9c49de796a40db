"""What is started when it is due, and what is not."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pipecatapp.application.schedules.starting import Beside, Starter
from pipecatapp.application.schedules.store import NewSchedule, Schedules
from pipecatapp.workflow import Ledger, load_document


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


async def test_cron_times_that_were_missed_are_one_start(tmp_path: Path) -> None:
    """Two days without power are one run at once, and then the next full hour."""
    ledger = Ledger(tmp_path / "ledger.db")
    begun: list[str] = []

    async def start(
        workflow: str, inputs: Mapping[str, Any], *, caller: str, beside: Beside
    ) -> str:
        begun.append(f"{workflow} by {caller}")
        await ledger.submit("", beside("run"))
        return "run"

    await ledger.hold(lambda _event: None)
    try:
        schedules = Schedules(ledger)
        hourly = {"workflow": "a", "cron": "0 * * * *", "zone": "UTC"}
        await schedules.put("b", NewSchedule.model_validate(hourly))
        early = Starter(schedules, start, now=lambda: datetime.now(UTC) - timedelta(hours=1))
        later = datetime.now(UTC) + timedelta(days=2)
        late = Starter(schedules, start, now=lambda: later)

        before = await early.start_due()
        runs = await late.start_due(), await late.start_due()

        due = datetime.fromisoformat(str(schedules.get("b").due))
        assert (before, runs, begun) == ([], (["run"], []), ["a by schedule/b"])
        assert (due.minute, due.second) == (0, 0)
        assert timedelta(0) < due - later <= timedelta(hours=1)
    finally:
        await ledger.let_go()
        ledger.close()


async def test_schedule_of_a_person_stands_until_that_person_removes_it(tmp_path: Path) -> None:
    """A workflow that is put into the folder must not change when somebody's own task runs."""
    said = load_document(
        "id: a\nschedule: {every: 5m}\nsteps: [{id: v, use: value, with: {value: 1}}]\n",
        file="a.yaml",
    )
    ledger = Ledger(tmp_path / "ledger.db")
    await ledger.hold(lambda _event: None)
    try:
        schedules = Schedules(ledger)
        own = await schedules.put("a", NewSchedule.model_validate({"workflow": "b", "every": 60}))
        await schedules.follow([said])
        stood = schedules.get("a")
        await schedules.remove("a")

        await schedules.follow([said])

        taken = schedules.get("a")
        assert stood == own
        assert (taken.workflow, taken.origin, taken.every) == ("a", "document", 300)
    finally:
        await ledger.let_go()
        ledger.close()
