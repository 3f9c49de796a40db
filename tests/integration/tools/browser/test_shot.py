"""The tool `browser.shot`."""

import hashlib
import struct

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import ToolFailed
from tests.integration.tools.browser.conftest import Visit

SHOT = TOOLS["browser.shot"]


@pytest.mark.proves("001-16")
async def test_picture_of_the_page_is_a_png_in_the_workspace(visit: Visit) -> None:
    """A vision model or a person looks at it later."""
    await visit.show("<title>Red</title><body style='background:red;height:2000px'>")

    shot = await SHOT.check(visit.ctx, {"path": "shots/view.png"})
    whole = await visit.call("shot", path="whole.png", full=True)

    assert visit.ctx.workspace is not None
    png = (visit.ctx.workspace / "shots/view.png").read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", png[16:24]) == (shot["width"], shot["height"]) == (1280, 800)
    assert shot["sha256"] == hashlib.sha256(png).hexdigest()
    assert (shot["size"], shot["title"]) == (len(png), "Red")
    assert shot["address"] == f"http://{visit.site.host}/"
    tall = (visit.ctx.workspace / "whole.png").read_bytes()
    assert struct.unpack(">II", tall[16:24]) == (1280, whole["height"])
    assert (2000 <= whole["height"] < 2100, whole["cut"]) == (True, False)


async def test_very_tall_page_is_cut(visit: Visit) -> None:
    """A page can be a kilometre high; a picture of it would fill the memory."""
    await visit.show("<body style='height:1000000px'>")

    shot = await visit.call("shot", full=True)

    assert (shot["height"], shot["cut"]) == (8000, True)


async def test_picture_has_the_name_of_a_png_in_the_workspace(visit: Visit) -> None:
    """The ending says what is made, and a link must not lead out."""
    await visit.show("<p>x")
    with pytest.raises(ToolFailed, match=r"must end in \.png"):
        await visit.call("shot", path="page.jpg")
    with pytest.raises(ToolFailed, match="leads out of the workspace"):
        await visit.call("shot", path="../page.png")
