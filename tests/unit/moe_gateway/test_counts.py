"""Counters and histograms of our own, in the form that Prometheus reads."""

from prometheus_client import CollectorRegistry, Histogram

from hearth.service.metrics import render
from moe_gateway.requests.counts import Counts, Spreads

BOUNDS = (0.005, 1, 2.5)
VALUES = (0.001, 0.005, 0.7, 1, 2, 3)


def test_histogram_reads_like_that_of_the_library() -> None:
    """Dashboards, alerts and the reference are made for the library's names and bounds."""
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    spread = Spreads("x_seconds", "About.", ["model"], buckets=BOUNDS, registry=ours)
    library = Histogram("x_seconds", "About.", ["model"], buckets=BOUNDS, registry=theirs)
    for value in VALUES:
        spread.labels("a").observe(value)
        library.labels("a").observe(value)

    lines = [line for line in render(theirs).splitlines() if b"_created" not in line]
    assert render(ours).splitlines() == lines


def test_series_begins_at_zero_and_is_forgotten_with_its_instance() -> None:
    """The first failure must be a rise; what is gone must not be counted for ever."""
    registry = CollectorRegistry()
    counts = Counts("x", "About.", ["model", "instance"], registry=registry)
    counts.labels("a", "here")
    counts.labels("a", "there").inc(2)

    before = render(registry)
    counts.remove("instance", "there")

    assert b'x_total{instance="here",model="a"} 0.0' in before
    assert b'x_total{instance="there",model="a"} 2.0' in before
    assert b"there" not in render(registry)
