"""The report of a machine by `machine_report`."""

import os
from types import SimpleNamespace

import pytest

from tests.ansible import tree


def test_space_that_is_reserved_for_root_is_no_part_of_a_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`df` would show 70 % in use: a share of all blocks would tell of a disk that is nearly full
    where a large part of it is reserved."""
    status = SimpleNamespace(f_frsize=4096, f_blocks=250, f_bfree=180, f_bavail=30)
    monkeypatch.setattr(os, "statvfs", {"/": status}.get)

    assert tree.module("machine_report").disk("/") == {"free": 30 * 4096, "total": 100 * 4096}
