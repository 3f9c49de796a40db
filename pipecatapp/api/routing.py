"""How the routes of the API are made."""

from collections.abc import Sequence

from fastapi import APIRouter, Depends
from fastapi.params import Depends as Dependency

from pipecatapp.api.errors import sound_json


def api_router(prefix: str = "", *, dependencies: Sequence[Dependency] = ()) -> APIRouter:
    """Return a router whose requests must have a sound JSON body, before `dependencies` are asked.

    An application takes its `routes` as they are. `include_router` would make each route once more,
    at the first request after the start.
    """
    return APIRouter(prefix=prefix, dependencies=[Depends(sound_json), *dependencies])
