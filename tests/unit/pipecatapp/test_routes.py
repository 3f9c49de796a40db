"""The routes of the agent's API."""

from fastapi.routing import APIRoute, APIWebSocketRoute

from pipecatapp.api.errors import sound_json
from pipecatapp.app import ROUTERS

OTHER_BODIES = ("/api/files", "/hooks/{id}")
"""Files are stored unread, and the signature of a webhook is that of its bytes; it is read strictly
afterwards. Bundles are archives."""


def test_every_route_checks_its_json_body_first() -> None:
    """A router that is not made by `api_router` would store what nobody can send any more."""
    routes = [route for router in ROUTERS for route in router.routes]

    assert len(routes) > 100
    for route in routes:
        assert isinstance(route, APIRoute | APIWebSocketRoute)
        if route.path in OTHER_BODIES or route.path.startswith("/api/bundles"):
            continue
        assert route.dependencies[0].dependency is sound_json, route.path
