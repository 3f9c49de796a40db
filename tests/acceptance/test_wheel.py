"""The wheel works away from the checkout."""

import subprocess
from pathlib import Path

import pytest

from tests.acceptance.conftest import Instance
from tests.rules.tree import ROOT


@pytest.fixture
def installed(instance: Instance, tmp_path: Path) -> Path:
    """The folder of programs of an environment that holds the built wheel and its locked needs."""
    uv, place = instance.place.checkout / ".tools" / "uv" / "bin" / "uv", instance.place
    environment = tmp_path / "elsewhere"
    wheels = tmp_path / "wheels"
    commands: list[list[str | Path]] = [
        [uv, "build", "--wheel", "-q", "-o", wheels, ROOT],
        [uv, "venv", "-q", environment],
        [uv, "pip", "sync", "-q", "-p", environment, "--require-hashes",
         ROOT / "requirements" / "local.lock"],
    ]  # fmt: skip
    for command in commands:
        subprocess.run(command, cwd=tmp_path, env=place.environment, check=True)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run(
        [uv, "pip", "install", "-q", "-p", environment, "--no-deps", wheel],
        cwd=tmp_path, env=place.environment, check=True,
    )  # fmt: skip
    return environment / "bin"


def test_installed_wheel_lists_models_and_plans_workflows(installed: Path, tmp_path: Path) -> None:
    """Data files (catalogue, workflows, prompts, the page) travel in the wheel."""

    def run(*arguments: str) -> str:
        ended = subprocess.run(
            [installed / "hearth", *arguments, "--state-dir", tmp_path / "state"],
            cwd=tmp_path, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert "smollm2" in run("models", "list")
    assert "reply" in run("plan", "agent-turn")
    page = next(installed.parent.glob("lib/python3*/site-packages/pipecatapp/static/index.html"))
    assert "<!doctype html>" in page.read_text(encoding="utf-8").lower()
