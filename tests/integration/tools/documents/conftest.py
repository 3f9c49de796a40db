"""A workspace, and a document that is written into it."""

from pathlib import Path
from typing import Any

import pytest

from pipecatapp.sandbox import Sandbox
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context

Json = dict[str, Any]


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    """A run with an empty workspace."""
    (tmp_path / "work").mkdir()
    return Context(workspace=tmp_path / "work", services={Sandbox: Sandbox()})


def work(ctx: Context) -> Path:
    """Return the workspace of a run."""
    assert ctx.workspace is not None
    return ctx.workspace


async def write(ctx: Context, text: str, path: str = "a.pdf", **more: Any) -> Json:
    """Write a document."""
    return await TOOLS["doc.write"].check(ctx, {"path": path, "text": text, **more})
