"""The tool `doc.write` in the real sandbox."""

import zipfile
from pathlib import Path

import pytest
from PIL import Image

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.documents.conftest import work, write

WRITE, READ = TOOLS["doc.write"], TOOLS["doc.read"]
REPORT = """\
---
title: Prices of tea
author: Ada
---
# Summary

The price **rose** to $x^2$.[^1]
- first item
- second item with `code`

| Name | Price |
|---|--:|
| Tea | 2.50 |
| Coffee \\| black | 3.75 |

[^1]: In November.

## Details

See [the summary](#summary).
"""


@pytest.mark.proves("001-25")
async def test_markdown_becomes_a_pdf_that_is_parsed_again(ctx: Context) -> None:
    """A report that an agent writes must be a document for people, and readable for agents."""
    written = await write(ctx, REPORT, "out/report.pdf", contents=True)
    read = await READ.check(ctx, {"path": "out/report.pdf"})

    assert (work(ctx) / "out/report.pdf").read_bytes().startswith(b"%PDF-")
    assert (written["pages"], written["notes"]) == (1, [])
    assert (read["kind"], read["pages"], read["title"]) == ("pdf", 1, "Prices of tea")
    assert read["text"].startswith("[page 1]\n")
    assert (
        "| Name | Price |\n| --- | --- |\n| Tea | 2.50 |\n| Coffee \\| black | 3.75 |"
        in (read["text"])
    )
    assert "• first item\n• second item with code" in read["text"]
    assert "**" not in read["text"]
    assert read["next"] is None


@pytest.mark.proves("001-25")
@pytest.mark.parametrize("form", ["docx", "odt", "epub", "html"])
async def test_markdown_becomes_other_documents(ctx: Context, form: str) -> None:
    """People edit docx and odt, read epub on their readers, and html anywhere."""
    await write(ctx, REPORT, f"report.{form}")
    read = await READ.check(ctx, {"path": f"report.{form}"})

    assert (read["kind"], read["title"]) == (form, "Prices of tea")
    assert "| Tea | 2.50 |" in read["text"]
    assert "**rose**" in read["text"]


async def test_pictures_of_the_workspace_are_in_the_document(ctx: Context) -> None:
    """Charts are made by other tools; their paths are relative to the text."""
    (work(ctx) / "text").mkdir()
    Image.new("RGB", (40, 30), "red").save(work(ctx) / "text/red dot.png")
    (work(ctx) / "text/a.md").write_text("![A dot](red%20dot.png)\n", encoding="utf-8")

    await WRITE.check(ctx, {"path": "a.docx", "source": "text/a.md"})

    with zipfile.ZipFile(work(ctx) / "a.docx") as archive:
        assert [name for name in archive.namelist() if name.startswith("word/media/")]


@pytest.mark.parametrize(
    ("picture", "reason"),
    [
        ("http://127.0.0.1:1/a.png", r"\(line 3\) is not a file of the workspace.*network"),
        ("../secret.png", r"\(line 3\) is outside of the workspace"),
        ("/etc/passwd", "is outside of the workspace"),
        ("link.png", "is outside of the workspace"),
        ("none.png", r"'none.png' \(line 3\) is not in the workspace"),
        ("text.png", "has none of the formats png"),
        ("broken.png", r"line 3 of the text, the picture 'broken.png'"),
    ],
)
async def test_picture_that_cannot_be_used_is_named_with_its_line(
    ctx: Context, tmp_path: Path, picture: str, reason: str
) -> None:
    """Nothing outside of the workspace gets into a document, and the author knows what to mend."""
    Image.new("RGB", (4, 3)).save(tmp_path / "secret.png")
    (work(ctx) / "link.png").symlink_to(tmp_path / "secret.png")
    (work(ctx) / "text.png").write_text("text", encoding="utf-8")
    (work(ctx) / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")

    with pytest.raises(ToolFailed, match=reason):
        await write(ctx, f"# A\n\n![x]({picture})\n")
    assert not (work(ctx) / "a.pdf").exists()


async def test_raw_code_in_the_text_has_no_effect(ctx: Context) -> None:
    """A text of a model or a web page must not run scripts, read files or command typst."""
    hostile = """\
---
header-includes: '#read("/etc/passwd")'
mainfont: '") #panic("pwned'
lang: en
---
<script>alert(1)</script>

Text <b>with</b> HTML #read("document.typ") and `#panic("x")`{=typst}.

```{=typst}
#panic("raw")
```

[x](javascript:alert(1)) [gone](#none)

[y]{typst:text:fill="read(1)"}
"""
    page = await write(ctx, hostile, "a.html")
    written = await write(ctx, hostile)
    read = await READ.check(ctx, {"path": "a.pdf"})
    html = (work(ctx) / "a.html").read_text(encoding="utf-8")

    assert page["notes"] == written["notes"]
    assert written["notes"] == [
        "Raw HTML was left out: only its text is written.",
        "These links have no target in the text, so they are plain text: #none.",
        "Only links to web pages, e-mail and headings work, not: javascript:alert(1).",
    ]
    assert "Text with HTML #read(“document.typ”)" in read["text"]
    assert "root:" not in read["text"]
    assert "alert(1)" not in html
    assert "javascript:" not in html


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"path": "a.txt", "text": "x"}, "must end in .pdf, .docx"),
        ({"path": "a.pdf"}, "either `text` or `source`"),
        ({"path": "../a.pdf", "text": "x"}, "leads out of the workspace"),
        ({"path": "a.pdf", "source": "none.md"}, "no such file"),
        ({"path": "a.pdf", "text": "---\ntitle: [\n---\nx"}, "YAML"),
        ({"path": "a.pdf", "text": "x", "language": "x; y"}, "is not a language"),
        ({"path": "folder.pdf", "text": "x"}, "it is a folder"),
    ],
)
async def test_wrong_input_is_explained(ctx: Context, given: dict[str, str], reason: str) -> None:
    """A model corrects its call by the sentence that it gets."""
    (work(ctx) / "folder.pdf").mkdir()

    with pytest.raises(ToolFailed, match=reason):
        await WRITE.check(ctx, given)


async def test_text_in_a_fence_is_written_without_the_fence(ctx: Context) -> None:
    """Models often put a whole answer in a fence; it would become one block of code."""
    await write(ctx, "```markdown\n# Title\n\ntext\n```", "a.html")

    assert "<h1" in (work(ctx) / "a.html").read_text(encoding="utf-8")
