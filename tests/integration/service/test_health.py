"""Health: ready when nobody gives a reason why not."""

from collections.abc import Callable

import httpx2
from starlette.applications import Starlette
from starlette.types import ASGIApp

from hearth.service.health import Health
from hearth.service.metrics import new_registry
from hearth.service.server import service_routes


def test_service_is_not_ready_until_it_says_that_it_started() -> None:
    """Traffic before the start is done would fail."""
    health = Health("oven", version="1")

    assert health.report().reasons == ["start: starting"]
    health.started()
    assert health.ready


def test_reasons_of_several_parts_are_kept_apart() -> None:
    """One part that is well again must not hide that another is not."""
    health = Health("oven", version="1")
    health.started()
    health.not_ready("gas", "no pressure")
    health.not_ready("door", "open")
    health.ready_again("gas")

    assert health.report().reasons == ["door: open"]


def test_since_is_when_readiness_last_changed() -> None:
    """A second reason does not make the trouble any younger."""
    health = Health("oven", version="1")
    health.started()
    since = health.report().since
    health.ready_again("nothing")
    assert health.report().since == since
    health.not_ready("gas", "no pressure")
    lost = health.report().since
    health.not_ready("door", "open")

    assert health.report().since == lost > since


def test_health_answers_503_with_the_reasons_and_200_without(
    serve: Callable[[ASGIApp], str],
) -> None:
    """Supervisors and Consul decide by the status, people by the reasons."""
    health = Health("oven", version="1.2")
    url = serve(Starlette(routes=service_routes(health, new_registry())))
    starting = httpx2.get(f"{url}/health", timeout=60)
    health.started()
    ready = httpx2.get(f"{url}/health", timeout=60)

    assert starting.status_code == 503
    assert starting.json()["reasons"] == ["start: starting"]
    assert ready.status_code == 200
    assert {k: ready.json()[k] for k in ("service", "live", "ready", "version")} == {
        "service": "oven", "live": True, "ready": True, "version": "1.2",
    }  # fmt: skip


def test_metrics_are_in_the_text_format_of_prometheus(serve: Callable[[ASGIApp], str]) -> None:
    """Prometheus reads the version of the format from the content type."""
    health = Health("oven", version="1")
    url = serve(Starlette(routes=service_routes(health, new_registry())))
    metrics = httpx2.get(f"{url}/metrics", timeout=60)

    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "process_resident_memory_bytes" in metrics.text
