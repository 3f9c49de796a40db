"""Temporary folders: none is left for ever, and none is taken from who uses it."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hearth.service.ephemeral import scratch

HOLD = """
from hearth.service.ephemeral import scratch
with scratch("oven") as folder:
    (folder / "deep").mkdir()
    print(folder, flush=True)
    input()
"""


def test_folder_of_a_killed_process_goes_and_of_a_living_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine whose agent is killed each night must not fill up with its folders."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    command = [sys.executable, "-c", HOLD]
    holders = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    killed, living = (Path(str(one.stdout and one.stdout.readline()).strip()) for one in holders)
    holders[0].kill()
    holders[0].communicate()
    before = killed.is_dir()

    with scratch("oven") as own:
        there = set(tmp_path.iterdir())
    holders[1].communicate("end\n")

    assert (before, there) == (True, {own, living})
    assert list(tmp_path.iterdir()) == []
