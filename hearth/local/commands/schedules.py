"""Scheduled workflows, as `hearth status` shows them."""

from datetime import datetime

import httpx2
from pydantic import BaseModel
from rich.table import Table
from rich.text import Text

from hearth.service.settings import read_key
from hearth.service.state import Instance

ASK_SECONDS = 5.0


class Schedule(BaseModel):
    """One line: the next start in UTC, or why there is none."""

    id: str
    workflow: str
    due: str | None
    paused: bool
    error: str | None


class Schedules(BaseModel):
    """The response of `/api/schedules`."""

    schedules: list[Schedule] = []


def schedules_of(instance: Instance) -> list[Schedule]:
    """Ask the agent service of an instance.

    Raises `httpx2.HTTPError`, `ValidationError` and, for its key, `SettingsError`.
    """
    headers = {"authorization": f"Bearer {read_key(instance.key_file)}"}
    url = f"{instance.web}/api/schedules"
    answer = httpx2.get(url, headers=headers, timeout=ASK_SECONDS, trust_env=False)
    return Schedules.model_validate_json(answer.raise_for_status().content).schedules


def table_of(schedules: list[Schedule]) -> Table:
    """Return a table of the schedules in the given order, with local times."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Schedule", "Next start", "Workflow", "Detail"):
        table.add_column(title, overflow="fold")
    for one in schedules:
        table.add_row(one.id, _next(one), one.workflow, Text(one.error or "", "red"))
    return table


def _next(one: Schedule) -> Text:
    if one.paused:
        return Text("paused", "yellow")
    if one.due is None:
        return Text("never", "dim")
    return Text(f"{datetime.fromisoformat(one.due).astimezone():%Y-%m-%d %H:%M:%S}")
