"""Pruning, exporting and importing runs in the shell."""

from pathlib import Path

from tests.integration.agent.test_cli import Hearth, hearth

__all__ = ["hearth"]


def test_runs_are_exported_pruned_and_taken_in_again(hearth: Hearth, tmp_path: Path) -> None:
    """What is taken away from here can be kept elsewhere and brought back."""
    file = tmp_path / "clock.yaml"
    file.write_text("id: clock\nsteps: [{id: look, use: time.now}]\n")
    hearth("run", str(file))
    run = hearth("runs", "--json").stdout.split('"id": "')[1].split('"')[0]

    exported = hearth("runs", "export", run)
    (kept := tmp_path / "run.jsonl").write_text(exported.stdout)
    twice = hearth("runs", "import", str(kept))
    looked = hearth("runs", "prune", "--days", "0", "--keep", "0", "--dry-run")
    pruned = hearth("runs", "prune", "--days", "0", "--keep", "0")
    gone = hearth("runs", "show", run)
    back = hearth("runs", "import", str(kept))
    shown = hearth("runs", "show", run)

    assert exported.stdout.startswith('{"format": 1, "table": "run"')
    assert (twice.exit_code, "exists already" in twice.stderr) == (2, True)
    assert looked.stdout == pruned.stdout == back.stdout == f"{run}\n"
    assert gone.exit_code == 1
    assert "look" in shown.stdout
