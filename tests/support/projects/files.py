"""Small projects in a workspace."""

from pathlib import Path

from pipecatapp.workflow import Context


def write(ctx: Context, **files: str) -> Path:
    """Write Python files; `__` in a name stands for `/`. Return the workspace."""
    assert ctx.workspace is not None
    for name, text in files.items():
        path = ctx.workspace / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
    return ctx.workspace


def write_files(root: Path, files: dict[str, str]) -> None:
    """Write files below a folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
