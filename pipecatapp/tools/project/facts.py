"""The tool that returns the properties of the project in a workspace."""

import asyncio
import os
import platform
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import BaseModel, Field

from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.sandbox.tree import TooLarge, open_plain, walk
from pipecatapp.tools.code.language.identify import READ, identify
from pipecatapp.tools.files.place import workspace
from pipecatapp.tools.project.requirements import requirements_of
from pipecatapp.workflow import Context, ToolFailed, tool

MANIFESTS: Final = frozenset(
    {
        "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "tox.ini", "package.json",
        "tsconfig.json", "go.mod", "Cargo.toml", "pom.xml", "build.gradle", "CMakeLists.txt",
        "Makefile", "Dockerfile",
    }
)  # fmt: skip
SKIPPED: Final = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", ".tox"})
DEPTH: Final = 100


class ProjectFacts(BaseModel):
    """Properties of a project."""

    folder: str = Field(description="Where programs find it.")
    system: str = Field(description="Operating system and version.")
    machine: str = Field(description="Processor architecture, such as x86_64.")
    languages: dict[str, int] = Field(description="Source files by language, the most first.")
    manifests: list[str] = Field(description="Files that describe the project.")
    requirements: list[str] = Field(
        description="Python packages that the project and its tests need, for code.install."
    )
    import_path: list[str] = Field(description="Folders from which its Python code imports.")


@tool("project.facts", effect="read", version=2, workspace=True)
async def facts(ctx: Context) -> ProjectFacts:
    """Describe the project in the workspace: languages, manifests, and what its tests need."""
    root = workspace(ctx)
    try:
        return await asyncio.to_thread(_facts, root)
    except (OSError, TooLarge) as error:
        raise ToolFailed(f"The workspace cannot be read: {error}.") from error


def _facts(root: Path) -> ProjectFacts:
    entries = [one.path for one in walk(root, depth=DEPTH, skip=SKIPPED) if one.is_file]
    counts = Counter(filter(None, (_language(root, path) for path in entries)))
    manifests = [path for path in entries if PurePosixPath(path).name in MANIFESTS]
    source = any(path.startswith("src/") and path.endswith(".py") for path in entries)
    return ProjectFacts(
        folder=WORK,
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        languages=dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))),
        manifests=manifests,
        requirements=requirements_of(root),
        import_path=[f"{WORK}/src", WORK] if source else [WORK],
    )


def _language(root: Path, path: str) -> str | None:
    """By the name; a file without an extension is read."""
    named = PurePosixPath(path)
    text = "" if named.suffix else _beginning(root, path)
    found = identify(path, text).language
    return found.name if found is not None and found.source else None


def _beginning(root: Path, path: str) -> str:
    with os.fdopen(open_plain(root, path), "rb") as stream:
        data = stream.read(READ)
    return "" if b"\0" in data else data.decode(errors="replace")
