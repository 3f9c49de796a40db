"""`hearth tools run` in a terminal: the form of a tool, and its files."""

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import Hearth, command
from tests.support import order_tool


@pytest.mark.proves("001-12")
def test_terminal_asks_for_the_inputs_of_a_tool(empty_house: House) -> None:
    """The questions are those of the schema; only the result is on standard output."""
    (empty_house.state / "tools").mkdir()
    shutil.copy(order_tool.__file__, empty_house.state / "tools" / "order.py")
    typed = "y\nlamp\n21\n2\nn\nfast\ny\nHof 1\n\nring\n\nyes\n"
    main, terminal = pty.openpty()
    os.write(main, typed.encode())
    ended = subprocess.run(
        [sys.executable, "-m", "hearth", "tools", "run", "shop.order",
         "--state-dir", str(empty_house.state)],
        stdin=terminal, capture_output=True, text=True, check=False, timeout=60,
        env=os.environ | empty_house.environment(),
    )  # fmt: skip
    os.close(main)
    os.close(terminal)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "2 lamp fast to Hof 1, Bonn (ring), wrapped\n"
    assert "items[0].count (integer, default 1)" in ended.stderr
    assert "21 is greater than the maximum of 20." in ended.stderr


def test_files_go_in_and_come_out(
    empty_house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A saved file replaces none that a person has, and any file can be copied later."""
    hearth: Hearth = command(empty_house, monkeypatch)
    given, out = tmp_path / "a.bin", tmp_path / "out"
    given.write_bytes(b"\0\xff")
    tool = ["tools", "run", "file.write", "-i", "path=x/b.txt", "-i", "text=hi"]
    saved = hearth(*tool, "--file", f"in/a.bin={given}", "--save", str(out))
    again = hearth(*tool, "--save", str(out))
    run = hearth("runs", "--json").stdout.split('"id": "')[2][:26]
    listed = hearth("runs", "files", run, "--all")
    copied = hearth("runs", "files", run, "in/a.bin", "-o", str(tmp_path / "c" / "a.bin"))

    assert (saved.exit_code, saved.stderr) == (0, f"Saved {out}/x/b.txt\n")
    assert (out / "x" / "b.txt").read_text() == "hi"
    assert again.exit_code == 1
    assert f"Not saved, because a file exists there: {out}/x/b.txt." in again.stderr
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == [
        "path", "x/b.txt", "in/a.bin",
    ]  # fmt: skip
    assert copied.exit_code == 0
    assert (tmp_path / "c" / "a.bin").read_bytes() == b"\0\xff"
    assert hearth("runs", "files", run, "x/b.txt").stdout == "hi"
    missing = hearth("runs", "files", run, "nosuch")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "has no file 'nosuch'" in missing.stderr
