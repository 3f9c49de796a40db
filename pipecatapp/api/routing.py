"""Create the routers of the API."""

from collections.abc import Sequence

from fastapi import APIRouter, Depends
from fastapi.params import Depends as Dependency

from pipecatapp.api.errors import sound_json


def api_router(prefix: str = "", *, dependencies: Sequence[Dependency] = ()) -> APIRouter:
    """Return a router that checks the JSON body of each request before its `dependencies`.

    An application adds its `routes` unchanged. `include_router` would build each route a second
    time, at the first request after the start.
    """
    return APIRouter(prefix=prefix, dependencies=[Depends(sound_json), *dependencies])
