"""How the watch of Consul states why it has no answer."""

import itertools

import pytest

from hearth.cluster.watch import CATALOGUE, ConsulAgent, ServiceWatch, health_of

REASONS = {CATALOGUE: "it lists no service", health_of("a"): "not a", health_of("b"): "not b"}


@pytest.mark.parametrize("order", list(itertools.permutations(REASONS)))
def test_reason_of_the_catalogue_is_shown_in_whatever_order_queries_fail(
    order: tuple[str, ...],
) -> None:
    """A token without rights loses all queries; only the catalogue's reason explains that."""
    reasons = []
    watch = ServiceWatch(
        ConsulAgent("http://127.0.0.1:1"),
        wanted=lambda name: True,
        changed=lambda services: reasons.append(watch.away),
    )
    for path in order:
        watch._failed(path, REASONS[path])
    assert watch.away == "it lists no service"

    for path in order:
        watch._answered(path)
    assert watch.away is None
    assert set(reasons) <= {*REASONS.values(), None}
