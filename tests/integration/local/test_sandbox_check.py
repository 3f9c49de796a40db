"""What `hearth doctor` says of the sandbox."""

from pathlib import Path

import pytest

from hearth.local.checks import no_sandbox
from hearth.local.commands.doctor import check_sandbox
from hearth.local.options import Options
from hearth.settings import Settings
from pipecatapp.sandbox import Limits
from pipecatapp.sandbox.program_group import ProgramGroup


def test_sandbox_that_works_is_nothing_to_tell() -> None:
    """The tests of this machine run programs in it; so must the doctor say."""
    assert no_sandbox() is None


def test_doctor_shows_how_programs_are_limited(tmp_path: Path) -> None:
    """Where no cgroup can be made the limit of memory is softer, and its reader decides by that."""
    (finding,) = check_sandbox(Options.of(Settings.load(), state_dir=tmp_path))

    group = ProgramGroup.make(Limits())
    if group is not None:
        group.remove()
    assert finding.verdict == "pass"
    assert ("a cgroup limits" if group else "is watched from outside") in finding.fact


@pytest.mark.parametrize(
    ("program", "fact", "remedy"),
    [
        (None, "bubblewrap is not installed", "apt-get install bubblewrap"),
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1",
         "does not work here (No permissions to create new namespace)", "user namespaces"),
    ],
)  # fmt: skip
def test_sandbox_that_cannot_work_is_told_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None, fact: str, remedy: str
) -> None:
    """Who wonders why `code.run` is refused asks the doctor; the rest of Hearth works without."""
    if program is not None:
        (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
        (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    (finding,) = check_sandbox(Options.of(Settings.load(), state_dir=tmp_path))

    assert finding.verdict == "warn"
    assert fact in finding.fact
    assert remedy in finding.remedy
