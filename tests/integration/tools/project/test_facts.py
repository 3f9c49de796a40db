"""The tool `project.facts`: what kind of project a workspace holds."""

import platform
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context

PYPROJECT = """
[project]
name = "My.Shop"
dependencies = ["requests>=2", "tomli; python_version < '3.0'", "at-address @ file:///x", "odd !!"]
[project.optional-dependencies]
test = ["pytest>=8", "my-shop[x]"]
docs = ["sphinx"]
[dependency-groups]
dev = ["hypothesis", {include-group = "test"}]
"""
SETUP_CFG = """
[options]
install_requires =
    attrs>=23
[options.extras_require]
test =
    pytest
    mock
"""


async def facts(root: Path) -> Any:
    return await TOOLS["project.facts"].check(Context(workspace=root), {})


def write(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_requirements_are_read_from_every_manifest(tmp_path: Path) -> None:
    """Those of the project and of its tests, for this machine, each once, without the project."""
    write(tmp_path, "pyproject.toml", PYPROJECT)
    write(tmp_path, "setup.cfg", SETUP_CFG)
    write(tmp_path, "requirements.txt", "-r other.txt\nnumpy[extra]==2.1  # why\n\n--index-url x\n")

    assert (await facts(tmp_path))["requirements"] == [
        "attrs>=23", "hypothesis", "mock", "numpy[extra]==2.1", "pytest>=8", "requests>=2",
    ]  # fmt: skip


@pytest.mark.proves("003-42")
async def test_languages_are_counted_by_extension_and_first_line(tmp_path: Path) -> None:
    """Installed packages are not the project."""
    write(tmp_path, "src/shop/a.py")
    write(tmp_path, "b.py")
    write(tmp_path, "run", "#!/usr/bin/env python3\n")
    write(tmp_path, "c.js")
    write(tmp_path, "README", "Words.\n")
    write(tmp_path, "node_modules/x/y.js")
    write(tmp_path, "package.json", "{}")

    seen = await facts(tmp_path)

    assert seen["languages"] == {"Python": 3, "JavaScript": 1}
    assert seen["manifests"] == ["package.json"]
    assert seen["import_path"] == ["/work/src", "/work"]
    assert seen["folder"] == "/work"
    assert seen["system"].startswith(platform.system())
    assert seen["machine"] == platform.machine()


async def test_broken_manifests_and_an_empty_folder_give_nothing(tmp_path: Path) -> None:
    """A project may be in the middle of a change; a link may lead out of it."""
    assert (await facts(tmp_path))["requirements"] == []
    write(tmp_path, "pyproject.toml", "[project\n")
    write(tmp_path, "setup.cfg", "no section")
    (tmp_path / "requirements.txt").symlink_to("/etc/hostname")

    assert (await facts(tmp_path))["requirements"] == []
