"""The committed dashboards: made by the generator, known to Grafana, each query well formed."""

import json
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.dashboards.__main__ import BOARDS, FOLDER, render
from tests.dashboards.panels import Board

Json = dict[str, Any]
FILES = sorted(FOLDER.glob("*.json"))


def read(file: Path) -> Json:
    found: Json = json.loads(file.read_text(encoding="utf-8"))
    return found


def through_schema(board: Json) -> Json:
    """The dashboard, read into the classes of Grafana's schema and written again.

    What the schema does not know does not survive.
    """
    register_default_plugins()
    again: Json = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
    return again


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: str(board.uid))
def test_committed_dashboard_is_what_the_generator_writes(board: Board) -> None:
    """A change by hand would be lost with the next run: python -m tests.dashboards writes them."""
    assert (FOLDER / f"{board.uid}.json").read_text(encoding="utf-8") == render(board)


def test_no_dashboard_lies_about_without_a_generator() -> None:
    """Grafana shows every file of the folder."""
    assert [file.stem for file in FILES] == sorted(board.uid for board in BOARDS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_grafana_knows_every_field_of_a_dashboard(file: Path) -> None:
    """Grafana passes over what it does not know, in silence."""
    assert through_schema(read(file)) == read(file)


@pytest.mark.parametrize(
    "place",
    [
        (),
        ("panels", 0),
        ("panels", 0, "targets", 0),
        ("panels", 0, "fieldConfig", "defaults"),
        ("panels", 0, "gridPos"),
    ],
)
def test_field_that_grafana_does_not_know_is_found(place: tuple[str | int, ...]) -> None:
    """The check above must be able to fail, at every depth."""
    board = read(FILES[0])
    part: Any = board
    for step in place:
        part = part[step]
    part["heading"] = "x"

    assert through_schema(board) != board


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_panels_have_a_place_and_a_source_of_their_own(file: Path) -> None:
    """Panels that overlap, or ask a source that is not provisioned, show nothing."""
    board = read(file)
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    sources = [target["datasource"] for panel in board["panels"] for target in panel["targets"]]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert [one for one in sources if one != {"type": "prometheus", "uid": "prometheus"}] == []
    assert [panel["title"] for panel in board["panels"] if not panel["description"]] == []
