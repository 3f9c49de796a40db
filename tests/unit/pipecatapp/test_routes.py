"""The routes of the agent's API."""

from fastapi.routing import APIRoute, APIWebSocketRoute

from pipecatapp.api.errors import sound_json
from pipecatapp.app import ROUTERS


def test_every_route_checks_its_json_body_first() -> None:
    """A router that is not made by `api_router` would store what nobody can send any more."""
    routes = [route for router in ROUTERS for route in router.routes]

    assert len(routes) > 100
    for route in routes:
        assert isinstance(route, APIRoute | APIWebSocketRoute)
        if route.path == "/api/files":
            continue  # the body is a file of any type, which is stored unread
        assert route.dependencies[0].dependency is sound_json, route.path
