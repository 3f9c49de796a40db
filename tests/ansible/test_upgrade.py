"""The order of an upgrade, which tests/lab/whole runs."""

from itertools import takewhile

from tests.ansible import tree


def test_release_is_brought_to_all_machines_before_the_first_one_changes() -> None:
    """What takes long is done while nobody waits, and what fails there has changed nothing."""
    plays = [play for play in tree.load(tree.ROOT / "upgrade.yaml") if "hosts" in play]

    before = list(takewhile(lambda play: "serial" not in play, plays))
    (in_turn,) = plays[len(before) :]

    assert [task["ansible.builtin.import_role"] for task in before[-1]["tasks"]] == [
        {"name": "hearth_release", "tasks_from": "install.yaml"}
    ]
    assert all(play["any_errors_fatal"] for play in plays)
    assert in_turn["serial"] == 1
    assert [role["role"] for role in in_turn["roles"]][-1] == "hearth_release"
