"""What an engine is asked to do, and what of it others could see."""

from pathlib import Path
from typing import Any

import pytest

from hearth.models.catalogue import Catalogue
from llama_expert.engines import llama_server
from llama_expert.job import EngineMissing, Job, physical_cores
from llama_expert.memory import too_big
from llama_expert.settings import Settings

SMALL = Catalogue.load()["smollm2"]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "key").write_text("sk-hearth-secret\n", encoding="utf-8")
    return {
        "name": "small",
        "port": 20001,
        "models": ["smollm2"],
        "model_dir": tmp_path,
        "key_file": tmp_path / "key",
    }


def test_job_takes_from_the_catalogue_what_the_settings_leave_open(
    settings: dict[str, Any],
) -> None:
    """A model knows best how long a conversation it can hold; a core stays free for all else."""
    job = Job.of(Settings(**settings), SMALL)
    other = Job.of(Settings(**settings, context=1024, threads=3), SMALL)

    assert (job.context, job.threads) == (SMALL.context, max(1, physical_cores() - 1))
    assert (other.context, other.threads) == (1024, 3)


def test_key_is_not_on_the_command_line_of_llama_server(settings: dict[str, Any]) -> None:
    """Every user of the machine can read every command line."""
    arguments = llama_server.arguments(Job.of(Settings(**settings), SMALL))

    assert not any("sk-hearth-secret" in argument for argument in arguments)
    assert str(settings["key_file"]) in arguments


def test_context_is_multiplied_for_all_callers(settings: dict[str, Any]) -> None:
    """llama.cpp divides its context by the slots; each caller is promised the whole of it."""
    job = Job.of(Settings(**settings, context=1024, slots=3), SMALL)

    arguments = llama_server.arguments(job)

    assert arguments[arguments.index("--ctx-size") + 1] == "3072"


def test_program_that_cannot_run_is_named(tmp_path: Path) -> None:
    """The path in the settings is the first thing that people get wrong."""
    with pytest.raises(EngineMissing, match=r"is not a program: set LLAMA_EXPERT_LLAMA_SERVER_BIN"):
        llama_server.check(tmp_path / "no")


def test_program_is_looked_for_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever has llama.cpp installed need not say where."""
    program = tmp_path / "llama-server"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineMissing, match="llama-server is not on PATH"):
        llama_server.check(None)

    monkeypatch.setenv("PATH", str(tmp_path))

    assert llama_server.check(None) == program


def test_model_must_fit_into_free_memory() -> None:
    """A machine that begins to swap answers nobody any more."""
    assert too_big(SMALL, SMALL.ram_bytes) is None
    assert too_big(SMALL, SMALL.ram_bytes - 1) == ("it needs 0.7 GB of memory, 0.7 GB are free.")
