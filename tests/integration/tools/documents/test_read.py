"""The tool `doc.read` on real and on hostile files, in the real sandbox."""

import datetime
from pathlib import Path

import openpyxl
import pytest

from pipecatapp.sandbox.ceiling import Ceiling
from pipecatapp.tools import TOOLS
from pipecatapp.tools.documents.job import LARGEST
from pipecatapp.tools.memory.tokens import estimated
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.documents.conftest import work, write
from tests.support.pdfs import ENCRYPTED, PLAIN, pdf

READ = TOOLS["doc.read"]


@pytest.mark.proves("001-25")
async def test_long_pdf_is_read_part_by_part_without_a_gap(ctx: Context) -> None:
    """A model with a small context reads a long document in several calls."""
    words = " ".join(f"word{number}" for number in range(2500))
    await write(ctx, f"# One\n\n{words}\n\n# Two\n\nThe end.\n")

    parts, position = [], {"page": 1, "start": 0}
    while position:
        part = await READ.check(ctx, {"path": "a.pdf", "budget": 4000, **position})
        assert estimated(part["text"]) <= 4000
        assert bool(part["left_out"]) is bool(part["next"])
        parts.append(part["text"])
        position = part["next"]

    assert 2 <= len(parts) <= 6
    read = [word for word in " ".join(parts).split() if word.startswith("word")]
    assert read == words.split()
    assert parts[-1].rstrip().endswith("The end.\n" + str(part["pages"]))


async def test_pages_of_a_huge_pdf_are_read_without_the_others(ctx: Context) -> None:
    """A document of many thousand pages must not take a minute for its last one."""
    (work(ctx) / "a.pdf").write_bytes(pdf([PLAIN] * 20_000))

    read = await READ.check(ctx, {"path": "a.pdf", "page": 19_999, "budget": 50})

    assert read["pages"] == 20_000
    assert read["text"].startswith("[page 19999]\nPlain text of this page.")


async def test_spreadsheet_and_csv_are_tables(ctx: Context) -> None:
    """Numbers are useful to a model only in their rows and columns."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Sales | 2026"
    sheet.append(["Day", "Sum"])
    sheet.append([datetime.datetime(2026, 11, 29), "=1+1"])
    sheet["A900000"] = "far"
    book.create_sheet("Empty")
    book.properties.title = "Ledger"
    book.save(work(ctx) / "a.xlsx")
    (work(ctx) / "a.csv").write_bytes("Name;Größe\nA|B;1,5\n".encode("cp1252"))

    table = await READ.check(ctx, {"path": "a.xlsx"})
    csv = await READ.check(ctx, {"path": "a.csv"})

    assert (table["kind"], table["title"]) == ("xlsx", "Ledger")
    assert table["text"] == (
        "## Sales \\| 2026\n\n| Day | Sum |\n| --- | --- |\n| 2026-11-29 | =1+1 |\n| far |  |\n\n"
        "## Empty"
    )
    assert csv["text"] == "| Name | Größe |\n| --- | --- |\n| A\\|B | 1,5 |"


async def test_web_page_is_text_and_tables_without_its_code(ctx: Context) -> None:
    """Scripts and styles cost tokens, and a script is nothing to read; spans keep the columns."""
    page = """<html><head><title>Prices</title><style>b {}</style></head><body>
<script>alert(1)</script><h1>Tea &amp; more</h1><p>See <a href="https://example.org">here</a> and
<a href="javascript:alert(2)">there</a>. <img src="file:///etc/passwd" alt="A leaf"></p>
<table><tr><th colspan="2">Kind</th><th>Price</th></tr>
<tr><td rowspan="2">green</td><td>big</td><td>1|2</td></tr><tr><td>small</td><td>3</td></tr>
</table></body></html>"""
    (work(ctx) / "a.html").write_text(page, encoding="utf-8")

    read = await READ.check(ctx, {"path": "a.html"})

    assert (read["kind"], read["title"]) == ("html", "Prices")
    assert read["text"] == (
        "# Tea & more\n\nSee [here](https://example.org) and there. (picture: A leaf)\n\n"
        "| Kind |  | Price |\n| --- | --- | --- |\n| green | big | 1\\|2 |\n|  | small | 3 |"
    )


async def test_document_with_the_wrong_name_is_read_by_its_content(ctx: Context) -> None:
    """People rename files; what is in them decides."""
    (work(ctx) / "letter.docx").write_bytes(pdf())

    read = await READ.check(ctx, {"path": "letter.docx"})

    assert read["kind"] == "pdf"
    assert read["notes"] == ["The file is pdf by its content, whatever its name."]


async def test_scan_without_text_is_said_to_be_one(ctx: Context) -> None:
    """An empty answer would be taken for an empty page."""
    picture = "q 100 0 0 100 72 600 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \x80 EI Q"
    (work(ctx) / "scan.pdf").write_bytes(pdf([picture]))

    read = await READ.check(ctx, {"path": "scan.pdf"})

    assert "No text, only pictures, on page 1" in read["notes"][0]


@pytest.mark.parametrize(
    ("path", "more", "reason"),
    [
        ("empty.pdf", {}, "the file is empty"),
        ("none.pdf", {}, "no such file"),
        ("large.pdf", {}, "at most 64 MiB are read. Split it"),
        ("link.pdf", {}, "leads out of the workspace"),
        ("locked.pdf", {}, "encrypted with a password: save a copy without"),
        ("note.txt", {"page": 2}, "has no pages: leave `page` out"),
    ],
)
async def test_file_that_cannot_be_read_is_explained(
    ctx: Context, tmp_path: Path, path: str, more: dict[str, int], reason: str
) -> None:
    """A damaged or hostile file is an answer for the model, and harms nobody."""
    root = work(ctx)
    with (root / "large.pdf").open("wb") as file:
        file.truncate(LARGEST + 1)
    (root / "empty.pdf").touch()
    (root / "locked.pdf").write_bytes(pdf(trailer=ENCRYPTED))
    (root / "note.txt").write_text("note", encoding="utf-8")
    (tmp_path / "secret.pdf").write_bytes(pdf())
    (root / "link.pdf").symlink_to(tmp_path / "secret.pdf")

    with pytest.raises(ToolFailed, match=reason):
        await READ.check(ctx, {"path": path, **more})


async def test_parser_that_takes_too_long_is_stopped(ctx: Context) -> None:
    """A document that keeps its parser busy must not keep the agent busy."""
    (work(ctx) / "a.pdf").write_bytes(pdf())
    ctx.services = {**ctx.services, Ceiling: Ceiling(seconds=0.01)}

    with pytest.raises(ToolFailed, match=r"'a.pdf' cannot be read: it takes more than 0.01 sec"):
        await READ.check(ctx, {"path": "a.pdf"})
