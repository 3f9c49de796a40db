"""The tool `doc.pages` in the real sandbox."""

import hashlib

import pytest
from PIL import Image

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.documents.conftest import work
from tests.support.pdfs import PLAIN, pdf

PAGES = TOOLS["doc.pages"]


async def test_pages_become_pictures_in_parts(ctx: Context) -> None:
    """People and models look at pages; a long document is rendered in several calls."""
    (work(ctx) / "a.pdf").write_bytes(pdf([PLAIN, "1 0 0 rg 0 0 612 792 re f", PLAIN]))

    told = await PAGES.check(ctx, {"path": "a.pdf", "into": "out", "first": 2, "most": 1})

    (one,) = told["pictures"]
    assert (told["pages"], told["next"]) == (3, 3)
    assert (one["page"], one["path"]) == (2, "out/page-2.png")
    data = (work(ctx) / "out/page-2.png").read_bytes()
    assert one["sha256"] == hashlib.sha256(data).hexdigest()
    with Image.open(work(ctx) / "out/page-2.png") as picture:
        assert picture.size == (one["width"], one["height"]) == (850, 1100)
        assert picture.getpixel((400, 400)) == (255, 0, 0)


async def test_page_of_a_poster_has_a_limited_number_of_pixels(ctx: Context) -> None:
    """A page may be 5 m wide; its picture must not take all memory."""
    poster = pdf().replace(b"[0 0 612 792]", b"[0 0 14400 14400]")
    (work(ctx) / "a.pdf").write_bytes(poster)

    told = await PAGES.check(ctx, {"path": "a.pdf", "dpi": 300})

    (one,) = told["pictures"]
    assert 20_000_000 < one["width"] * one["height"] < 25_100_000


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"first": 2}, "it has 1 pages, so there is no page 2"),
        ({"first": 2, "last": 1}, "give the lower page first"),
        ({"into": "../out"}, "leads out of the workspace"),
        ({"path": "b.txt"}, "not a valid PDF"),
    ],
)
async def test_wrong_input_is_explained(
    ctx: Context, given: dict[str, object], reason: str
) -> None:
    """A model corrects its call by the sentence that it gets."""
    (work(ctx) / "a.pdf").write_bytes(pdf())
    (work(ctx) / "b.txt").write_text("text", encoding="utf-8")

    with pytest.raises(ToolFailed, match=reason):
        await PAGES.check(ctx, {"path": "a.pdf", **given})
