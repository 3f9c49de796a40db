"""`/api/schedules`: what starts by itself."""

from typing import Annotated

from fastapi import Depends, Path
from pydantic import BaseModel

from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.schedules.starting import NotStarted
from pipecatapp.application.schedules.store import ID, NewSchedule, Schedule

router = api_router("/api/schedules", dependencies=[Depends(known_caller)])

Id = Annotated[str, Path(pattern=ID, max_length=200)]


class ScheduleList(BaseModel):
    schedules: list[Schedule]


class StartedRun(BaseModel):
    run: str


@router.get("")
async def list_schedules(parts: WithParts) -> ScheduleList:
    """Every one, the next to start first."""
    return ScheduleList(schedules=parts.schedules.all())


@router.get("/{id}")
async def show_schedule(id: Id, parts: WithParts) -> Schedule:
    """One, with how its last run is."""
    return parts.schedules.get(id)


@router.put("/{id}")
async def put_schedule(id: Id, body: NewSchedule, parts: WithParts) -> Schedule:
    """Make one, or replace one of a person. The inputs are checked now, not at its first time."""
    parts.runs.check_inputs(body.workflow, body.inputs)
    made = await parts.schedules.put(id, body)
    parts.starter.changed()
    return made


@router.delete("/{id}", status_code=204)
async def remove_schedule(id: Id, parts: WithParts) -> None:
    """Forget it; its runs stay."""
    await parts.schedules.remove(id)


@router.post("/{id}/pause")
async def pause_schedule(id: Id, parts: WithParts) -> Schedule:
    """Start no more until it is resumed."""
    return await parts.schedules.pause(id, paused=True)


@router.post("/{id}/resume")
async def resume_schedule(id: Id, parts: WithParts) -> Schedule:
    """Start again, from the next time on."""
    resumed = await parts.schedules.pause(id, paused=False)
    parts.starter.changed()
    return resumed


@router.post("/{id}/run", status_code=201)
async def run_schedule(id: Id, parts: WithParts) -> StartedRun:
    """Start it now, besides its times."""
    run = await parts.starter.start(parts.schedules.get(id))
    if run is None:
        reason = parts.schedules.get(id).error or "it was not started"
        raise NotStarted(f"The schedule {id!r} cannot be started: {reason}")
    return StartedRun(run=run)
