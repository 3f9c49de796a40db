"""The files of the repository, as git sees them: tracked, or new and not ignored."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "hearth",
    "moe_gateway",
    "llama_expert",
    "pipecatapp",
    "power_manager",
    "prompt_engineering",
    "speech",
)


@cache
def files() -> list[Path]:
    """Every file that is, or would be, in a commit; relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    return sorted(Path(name) for name in set(listed.split("\0")) if name and (ROOT / name).exists())


def python(*folders: str) -> list[Path]:
    """The Python files below the given folders."""
    return [f for f in files() if f.suffix == ".py" and f.parts[0] in folders]


def product() -> list[Path]:
    """The Python files of the product itself."""
    return python(*PACKAGES)


def markdown() -> list[Path]:
    """Every Markdown page."""
    return [f for f in files() if f.suffix == ".md" and "vendor" not in f.parts]


def text(file: Path) -> str:
    return (ROOT / file).read_text(encoding="utf-8")
