"""The tool `http.download` against a server on a socket."""

from pathlib import Path

import pytest
from starlette.responses import Response

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.web.conftest import Site

DOWNLOAD = TOOLS["http.download"]


async def test_bytes_are_in_the_workspace(
    ctx: Context, site: Site, port: int, tmp_path: Path
) -> None:
    """As the server sent them."""
    site.plan = [Response(b"\x89PNG\0\xff", media_type="image/png")]
    asked = {"url": f"http://api.example:{port}/a.png", "path": "in/a.png"}
    found = await DOWNLOAD.check(ctx, asked)
    assert (tmp_path / "in" / "a.png").read_bytes() == b"\x89PNG\0\xff"
    assert (found["size"], found["content_type"]) == (6, "image/png")


async def test_file_outside_of_the_workspace_is_refused(
    ctx: Context, site: Site, port: int, tmp_path: Path
) -> None:
    """Wherever the path leads."""
    asked = {"url": f"http://api.example:{port}/", "path": "../x"}
    with pytest.raises(ToolFailed, match="out of the workspace"):
        await DOWNLOAD.check(ctx, asked)
    assert not (tmp_path.parent / "x").exists()
