"""Runs of other callers: a request on behalf of one key reads none of another key's."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Depends, Header, Request

from hearth.service.http_errors import Refused
from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import Parts, WithParts
from pipecatapp.application.callers import CALLER, owner_of
from pipecatapp.application.engine import UnknownRun

Behalf = Annotated[str, Header(alias=CALLER)]
"""The key on whose behalf the gateway sends a request; empty for the built-in key."""


def administrator(caller: Annotated[None, Depends(known_caller)], behalf: Behalf = "") -> None:
    """Let a caller with the built-in key pass; raise `Refused` (403) for every issued key."""
    if owner_of(behalf):
        message = "Only the built-in key of this instance may do this, not an issued key."
        raise Refused(403, "not_administrator", message)


async def own_run(request: Request, parts: WithParts, behalf: Behalf = "") -> None:
    """Raise `UnknownRun` if the path or `with` names a run of another key."""
    named = (request.path_params.get("run"), request.query_params.get("with"))
    own_runs(parts, [run for run in named if run is not None], owner_of(behalf))


def own_runs(parts: Parts, runs: Iterable[str], owner: str) -> None:
    """Raise `UnknownRun` for a run of another owner, unless `owner` is the built-in key."""
    for run in runs:
        if owner and parts.runs.engine.row(run).owner != owner:
            raise UnknownRun(f"There is no run {run!r}.")
