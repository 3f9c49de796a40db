"""The three kinds of panel that our dashboards are made of, and a dashboard of them.

The builders are Grafana's own, generated from its schema: mypy refuses what Grafana does not know.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="prometheus")
"""The data source that the Grafana job provisions."""

RATE = "[$__rate_interval]"
"""As long as Grafana needs it to be for the data source's scrape interval."""

HEIGHT, WIDTH = 8, 8
"""In cells of Grafana's grid: three panels stand side by side on its 24 columns."""

Panel = timeseries.Panel | stat.Panel | table.Panel
Query = tuple[str, str]
"""A PromQL expression, and the legend of its series."""


@dataclass(frozen=True)
class Board:
    """One dashboard: the file name is its uid."""

    uid: str
    title: str
    description: str
    panels: Sequence[Panel]

    def build(self) -> dashboard.Dashboard:
        board = (
            dashboard.Dashboard(self.title)
            .uid(self.uid)
            .description(self.description)
            .tags(["hearth"])
            .readonly()
            .time("now-1h", "now")
            .refresh("30s")
        )
        for place, panel in enumerate(self.panels, 1):
            board = board.with_panel(panel.id(place))
        return board


def lines(title: str, description: str, *queries: Query, unit: str = "short") -> timeseries.Panel:
    """How something goes on, one line a series."""
    panel = timeseries.Panel().title(title).description(description).unit(unit)
    panel = panel.min(0).fill_opacity(8).datasource(SOURCE).height(HEIGHT).span(WIDTH)
    for letter, (expression, legend) in zip("ABCDEF", queries, strict=False):
        panel = panel.with_target(_query(letter, expression).legend_format(legend))
    return panel


def number(title: str, description: str, *queries: Query, unit: str = "short") -> stat.Panel:
    """How something is now, in large digits."""
    panel = stat.Panel().title(title).description(description).unit(unit)
    panel = panel.datasource(SOURCE).height(HEIGHT).span(WIDTH)
    for letter, (expression, legend) in zip("ABCDEF", queries, strict=False):
        panel = panel.with_target(_query(letter, expression).legend_format(legend))
    return panel


def rows(title: str, description: str, expression: str) -> table.Panel:
    """What is there now, one row a series, one column a label."""
    query = _query("A", expression).instant().format(PromQueryFormat.TABLE)
    panel = table.Panel().title(title).description(description).with_target(query)
    return panel.datasource(SOURCE).height(HEIGHT).span(WIDTH)


def quantiles(histogram: str, by: str) -> tuple[Query, Query]:
    """The median and the slowest twentieth of a histogram of seconds, by a label."""
    rates = f"sum by (le, {by}) (rate({histogram}_bucket{RATE}))"
    return (
        (f"histogram_quantile(0.5, {rates})", f"{{{{{by}}}}} median"),
        (f"histogram_quantile(0.95, {rates})", f"{{{{{by}}}}} 95 %"),
    )


def _query(letter: str, expression: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().ref_id(letter).expr(expression).datasource(SOURCE)
