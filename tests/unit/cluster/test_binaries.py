"""Which Nomad and Consul are used."""

from pathlib import Path

import pytest

from hearth.cluster import binaries
from tests.binaries.consul import build


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with neither, whose PATH is the folder that is returned."""
    monkeypatch.delenv("HEARTH_CONSUL_BINARY", raising=False)
    monkeypatch.delenv("HEARTH_NOMAD_BINARY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(binaries, "CONSUL_BUILDS", tmp_path / "builds")
    return tmp_path


def _program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o755)
    return path


def test_named_program_wins_over_path(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who names a program wants that one, not what happens to be installed."""
    _program(bare_machine / "bin" / "nomad")
    monkeypatch.setenv("HEARTH_NOMAD_BINARY", "/elsewhere/nomad")

    assert binaries.find("nomad") == Path("/elsewhere/nomad")


def test_program_on_path_wins_over_our_build(bare_machine: Path) -> None:
    """An installed Consul is newer than the one that we can compile."""
    _program(bare_machine / "builds" / "1.12.9" / "consul")
    installed = _program(bare_machine / "bin" / "consul")

    assert binaries.find("consul") == installed


def test_newest_of_our_builds_is_found(bare_machine: Path) -> None:
    """1.12.10 is newer than 1.12.9, whatever the alphabet says."""
    _program(bare_machine / "builds" / "1.12.9" / "consul")
    newest = _program(bare_machine / "builds" / "1.12.10" / "consul")

    assert binaries.find("consul") == newest


def test_machine_without_nomad_has_none() -> None:
    """Tests that need Nomad are left out then, and say so."""
    assert binaries.find("nomad") is None
    assert binaries.find("consul") is None


def test_compiled_consul_is_pinned() -> None:
    """A build that drifts would prove something else every month."""
    assert build.version() == "1.12.9"
    assert (build.PINNED / "go.sum").exists()
