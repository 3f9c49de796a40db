"""The benchmark report: what it claims must follow from what was measured."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.entry import Benchmark, Pair
from tests.benchmarks.machine import facts
from tests.benchmarks.report import note, page, verdict, write

PAIRS = [Pair(10, 10), Pair(12, 10), Pair(8, 10), Pair(11, 10), Pair(30, 10)]


def found(name: str = "a.b", **fields: Any) -> dict[str, Any]:
    benchmark = Benchmark(
        id=name,
        about="What it does.",
        unit="tokens/s",
        peer="peer",
        peer_version=lambda: "1.2",
        goal=1.0,
        measure=lambda: PAIRS,
        **fields,
    )
    return benchmark.entry(facts())


def test_ratio_is_the_median_of_the_pairs() -> None:
    """One lucky pair must not make a claim."""
    entry = found()

    assert (entry["ours"], entry["peer"], entry["ratio"], entry["runs"]) == (11, 10, 1.1, 5)


def test_ratio_above_one_is_better_also_where_less_is_better() -> None:
    """Seconds and bytes are turned round, so that every row reads the same."""
    assert found(lower_is_better=True)["ratio"] == pytest.approx(10 / 11, abs=1e-4)


def test_entries_say_on_what_they_were_measured() -> None:
    """A figure without its machine is no figure."""
    assert found()["on"].keys() >= {"cpu", "cores", "date", "python", "hearth"}


def test_new_results_replace_old_ones_of_the_same_id_only(tmp_path: Path) -> None:
    """One benchmark can be run again without the hour that all take."""
    write([found("a.b"), found("c.d")], tmp_path)
    write([{**found("a.b"), "ratio": 0.5}], tmp_path)

    entries = json.loads((tmp_path / "benchmarks.json").read_text())["entries"]
    assert [(entry["id"], entry["ratio"]) for entry in entries] == [("a.b", 0.5), ("c.d", 1.1)]
    assert (tmp_path / "benchmarks.md").read_text() == page(entries)


def test_page_says_when_a_goal_was_missed() -> None:
    """The page is made from the figures, also where they are not good."""
    assert verdict({**found(), "ratio": 0.99}) == "1 missed"
    assert verdict(found()) == "1 reached"


def test_target_is_judged_beside_the_ratio_or_in_its_place() -> None:
    """Who reaches one of two goals has not reached the other."""
    both = found(target=12, lower_is_better=False)

    assert verdict(both) == "1 reached, ≥ 12 tokens/s missed"
    assert verdict({**both, "goal": None, "target": 11}) == "≥ 11 tokens/s reached"


def test_further_peers_are_shown_but_do_not_decide() -> None:
    """The verdict is on the ratio to the named peer and on the target."""
    pairs = [Pair(20, 10, {"slow": 200}, {"tasks": 8})] * 5
    benchmark = Benchmark(
        id="a.b",
        about="What it does.",
        unit="ms",
        peer="peer",
        peer_version=lambda: "1.2",
        goal=0.6,
        target=30,
        measure=lambda: pairs,
        lower_is_better=True,
        other_versions=lambda: {"slow": "3"},
        remarks=lambda: ["90 % in write"],
    )

    entry = benchmark.entry(facts())
    told = note(entry)

    assert verdict(entry) == "0.6 missed, ≤ 30 ms reached"
    assert "at most 30 ms; here 20, reached" in told
    assert "slow 3 in the same turns: 200 ms, ratio 10" in told
    assert "tasks 8" in told
    assert "* 90 % in write" in told
