"""Servers of a quorum against those of the inventory."""

import pytest

from hearth.cluster.client import Peer
from hearth.cluster.drift.machines import Machine, Report
from hearth.cluster.drift.servers import peers

THIRD = Peer.model_validate(
    {"ID": "3", "Node": "attic", "Address": "10.0.0.3:8300", "Leader": False, "Voter": True}
)


@pytest.mark.parametrize(
    ("machine", "serving", "action", "target"),
    [
        # It runs, and is a server no more: its role lets it leave in good order.
        (Machine("attic", "10.0.0.3", report=Report()), {"10.0.0.3"}, "run_role", "consul"),
        # It runs as a client; its seat is left from before.
        (Machine("attic", "10.0.0.3", report=Report()), set(), "remove_peer", "consul:3"),
        # The inventory has no such machine.
        (Machine("desk", "10.0.0.1", server=True), {"10.0.0.3"}, "remove_peer", "consul:3"),
    ],
)
def test_seat_of_no_server_is_given_up_or_taken_away(
    machine: Machine, serving: set[str], action: str, target: str
) -> None:
    """A live server whose seat is taken away gets it back; a dead one can leave no other way."""
    found = {f.id: f for f in peers("consul", [THIRD], [machine], serving)}["peer:consul:3"]

    assert (found.risk, found.fix.action, found.fix.target) == ("disruptive", action, target)
