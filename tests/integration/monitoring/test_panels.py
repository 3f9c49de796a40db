"""Each panel of each dashboard, against a real Prometheus that watches a real Hearth."""

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hearth.service.names import LLAMA_EXPERT, MOE_GATEWAY, PIPECATAPP
from tests.dashboards.__main__ import BOARDS
from tests.dashboards.queries import queries
from tests.integration.monitoring.house import CONSUL, LAUNCHER, NODE_EXPORTER, House
from tests.integration.monitoring.prometheus import Prometheus, Values
from tests.rules.tree import ROOT

PREFIXES = {
    "consul_": CONSUL,
    "llama_expert_": LLAMA_EXPERT,
    "llamacpp:": LLAMA_EXPERT,
    "moe_gateway_": MOE_GATEWAY,
    "node_": NODE_EXPORTER,
    "pipecatapp_": PIPECATAPP,
}
"""How a metric begins -> the service that tells it."""

STOPS = (PIPECATAPP, LLAMA_EXPERT, MOE_GATEWAY, NODE_EXPORTER, CONSUL)
JOBS = {*STOPS, LAUNCHER}
"""What Prometheus calls the services; the launcher ends with its expert."""

PATIENCE = 120.0
"""Seconds of traffic after which a panel that has not moved will not."""

STEADY = {
    "max(consul_consul_state_nodes)",
    "sum(consul_server_isLeader)",
    "sum by (expert, model, server) (moe_gateway_instance_serves)",
    "min by (server) (moe_gateway_instance_up)",
    "max by (server) (moe_gateway_circuit_open)",
    "max by (node) (abs(node_timex_offset_seconds))",
    "sum by (job) (up == 1)",
    "max by (expert) (llama_expert_model_rank)",
}
"""What no traffic moves: their values are held to what is known to be there."""

ELSEWHERE = re.compile(r"nomad_|ALERTS|process_resident|voice_")
"""Panels with a test of their own."""


PAGE = re.findall(
    r"^\| .+ \| `(.*moe_gateway_.*)` \|$",
    (ROOT / "docs" / "howto" / "routing.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
"""The queries that the page on routing offers."""


def asked(expression: str) -> list[str]:
    """The parts of such a query that have a value whenever people chat: each side of a share, and
    of what only speaks in trouble all but its condition."""
    return [part for part in expression.partition(" == ")[0].split(" / ") if "moe_" in part]


@dataclass
class Seen:
    """What one query said, before, while there was traffic, and when its service was stopped."""

    before: Values
    during: Values = field(default_factory=dict)
    after_stop: Values | None = None

    @property
    def has_moved(self) -> bool:
        return bool(self.during) and self.during != self.before


HERE = [
    pytest.param(expression, id=f"{title}: {expression[:60]}")
    for title, expression in queries()
    if not ELSEWHERE.search(expression)
]


def service_of(expression: str) -> str | None:
    """Who tells the metrics of this query."""
    return next((name for prefix, name in PREFIXES.items() if prefix in expression), None)


@pytest.fixture(scope="module")
def answers() -> dict[str, Values]:
    """What the queries of the page on routing said, part by part, while there was traffic."""
    return {part: {} for expression in PAGE for part in asked(expression)}


@pytest.fixture(scope="module")
def seen(house: House, prometheus: Prometheus, answers: dict[str, Values]) -> dict[str, Seen]:
    """The whole story: quiet, traffic, then one service after the other is stopped."""
    house.say_once()
    time.sleep(prometheus.window + 1)
    found = quiet(prometheus)
    awaited = [str(one.values[0]) for one in HERE if one.values[0] not in STEADY]
    with house.traffic():
        ends = time.monotonic() + PATIENCE
        while (awaited or not all(answers.values())) and time.monotonic() < ends:
            read_from_disk(house.folder / "read")
            time.sleep(0.2)  # The services need the processors, too.
            for expression in [text for text, rows in answers.items() if not rows]:
                answers[expression] = prometheus.ask(expression)
            for expression in list(awaited):
                one = found[expression]
                one.during = prometheus.ask(at_home(expression))
                if one.has_moved:
                    awaited.remove(expression)
    for service in STOPS:
        told = {text: one for text, one in found.items() if service_of(text) == service}
        house.stop(service)
        ends = time.monotonic() + PATIENCE
        while any(one.after_stop != {} for one in told.values()) and time.monotonic() < ends:
            for expression, one in told.items():
                one.after_stop = prometheus.ask(at_home(expression))
    found["ALERTS"] = Seen({}, after_stop=prometheus.ask("ALERTS"))
    return found


def quiet(prometheus: Prometheus) -> dict[str, Seen]:
    """What every query says before there is traffic.

    A busy machine may not answer within a second, and then a service looks dead for a moment: asked
    is when none does, from the first question to the last.
    """
    for _ in range(20):
        prometheus.wait_for_targets(PATIENCE)
        found = {
            expression: Seen(prometheus.ask(at_home(expression))) for _, expression in queries()
        }
        failed = prometheus.ask(f"sum(count_over_time((up == 0)[{2 * prometheus.window}s:1s]))")
        if not failed:
            return found
        time.sleep(2 * prometheus.window)
    raise AssertionError(f"The services do not answer all the time: {failed}")


def read_from_disk(file: Path) -> None:
    """Read a file that the kernel does not have in memory: traffic alone may read nothing."""
    with file.open("wb+") as stream:
        stream.write(os.urandom(1 << 20))
        stream.flush()
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        stream.seek(0)
        stream.read()


def at_home(expression: str) -> str:
    """The test's traffic does not leave the machine: where cards are chosen, take loopback."""
    return expression.replace('device!~"lo|', 'device!~"')


@pytest.mark.proves("004-50")
@pytest.mark.parametrize("expression", [one for one in HERE if one.values[0] not in STEADY])
def test_panel_moves_under_traffic(seen: dict[str, Seen], expression: str) -> None:
    """A panel that stays flat while people chat shows nothing."""
    assert seen[expression].has_moved, seen[expression]


@pytest.mark.parametrize(
    "expression", [one for one in HERE if service_of(str(one.values[0])) is not None]
)
def test_panel_is_empty_when_its_service_is_stopped(seen: dict[str, Seen], expression: str) -> None:
    """A line that goes on without its service would hide that it is gone."""
    one = seen[expression]

    assert one.before or one.during, "it had something to show"
    assert one.after_stop == {}


@pytest.mark.parametrize("expression", PAGE)
def test_query_of_the_page_on_routing_has_an_answer(
    seen: dict[str, Seen], answers: dict[str, Values], prometheus: Prometheus, expression: str
) -> None:
    """Each is copied as it stands; one with a label or a value that is not there draws nothing."""
    for part in asked(expression):
        labels = re.findall(r"by \(([^)]*)\)", part)
        wanted = {label for one in labels for label in one.split(", ")} - {"le"}
        rows = answers[part]

        assert rows
        assert "instance" not in wanted, "in Hearth's Prometheus that is the gateway itself"
        assert all({name for name, _ in row} >= wanted for row in rows), rows
    prometheus.ask(expression)  # It fails when this is no query.


def test_steady_panels_say_what_is_there(seen: dict[str, Seen], house: House) -> None:
    """Which model runs, who leads, what answers: no traffic moves these."""

    def labels(expression: str) -> list[dict[str, str]]:
        return sorted((dict(row) for row in seen[expression].before), key=str)

    def values(expression: str) -> list[float]:
        return sorted(seen[expression].before.values())

    assert values("sum by (job) (up == 1)") == [1.0] * 6
    assert values("max by (expert) (llama_expert_model_rank)") == [0.0]
    assert values("max(consul_consul_state_nodes)") == [1.0]
    assert values("sum(consul_server_isLeader)") == [1.0]
    assert values("min by (server) (moe_gateway_instance_up)") == [1.0] * 3
    assert values("max by (server) (moe_gateway_circuit_open)") == [0.0] * 3
    assert len(values("max by (node) (abs(node_timex_offset_seconds))")) == 1
    models = labels("sum by (expert, model, server) (moe_gateway_instance_serves)")
    assert [(row["expert"], row["model"]) for row in models] == [("smollm2", "smollm2")] * 2
    expert = house.options.expert.removeprefix("http://")
    assert f"smollm2@{expert}" in {row["server"] for row in models}


def test_stopped_services_raise_alerts(seen: dict[str, Seen]) -> None:
    """The table of alerts is the one panel that fills when things go wrong."""
    (expression,) = (text for text in seen if "(ALERTS)" in text)
    alerts = [dict(row) for row in seen["ALERTS"].after_stop or {}]
    down = [row for row in alerts if row["alertname"] == "ServiceDown"]

    # Alerts of the node exporter are about the machine that runs the tests, such as a full disk.
    before = [dict(row) for row in seen[expression].before]
    assert [row for row in before if row["job"] != NODE_EXPORTER] == []
    assert {row["job"] for row in down} == JOBS
    # Whoever was stopped first may have been away for long enough meanwhile.
    assert {row["alertstate"] for row in down} <= {"pending", "firing"}


def test_memory_of_services_is_shown_by_service(seen: dict[str, Seen]) -> None:
    """A leak is seen where each service has a line of its own."""
    (expression,) = (text for text in seen if "process_resident" in text)

    jobs = {dict(row)["job"] for row in seen[expression].before}
    assert jobs == {MOE_GATEWAY, PIPECATAPP}
    assert all(value > 1e6 for value in seen[expression].before.values())


def test_answering_services_are_counted_by_service(seen: dict[str, Seen]) -> None:
    """`up` must name services as the rest of Hearth does."""
    rows = seen["sum by (job) (up == 1)"].before

    assert {dict(row)["job"] for row in rows} == JOBS


def test_every_board_is_asked() -> None:
    """A dashboard whose file is not read would pass without a look."""
    assert {title.rpartition(": ")[0] for title, _ in queries()} == {
        board.title for board in BOARDS
    }
