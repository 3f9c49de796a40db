"""`python -m tests.dashboards`: write the dashboards that the Grafana job provisions."""

import json
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from tests.dashboards.agent import AGENT
from tests.dashboards.cluster import CLUSTER
from tests.dashboards.experts import EXPERTS
from tests.dashboards.hosts import HOSTS
from tests.dashboards.panels import Board

FOLDER = Path(__file__).parents[2] / "ansible" / "roles" / "grafana" / "files" / "dashboards"
BOARDS = (CLUSTER, EXPERTS, AGENT, HOSTS)


def render(board: Board) -> str:
    """The JSON of one dashboard, as Grafana reads it from a file."""
    return json.dumps(board.build().build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


def main() -> None:
    """Write every dashboard."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for board in BOARDS:
        (FOLDER / f"{board.uid}.json").write_text(render(board), encoding="utf-8")


if __name__ == "__main__":
    main()
