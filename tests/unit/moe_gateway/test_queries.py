"""The queries that the documentation offers ask for metrics that exist."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from moe_gateway.requests.metrics import GatewayMetrics
from moe_gateway.routing.admission import Admission

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "routing.md"
METRIC = re.compile(r"moe_gateway_[a-z_]+\b(?!:)")
"""With a colon behind it, it is a variable of an inventory."""


def test_queries_of_the_page_name_every_metric_and_no_other() -> None:
    """A query for a metric that was renamed draws an empty panel, and nobody notices."""
    registry = CollectorRegistry()
    GatewayMetrics(registry, [], Admission(1, 1))
    families = {family.name for family in registry.collect()}
    asked = {re.sub("_(total|bucket)$", "", name) for name in METRIC.findall(PAGE.read_text())}

    assert asked <= families
    assert families - asked == {"moe_gateway_duration_seconds", "moe_gateway_tasks"}
