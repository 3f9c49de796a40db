"""The rules of `doc.check` on PDFs with one fault each, without the sandbox around them."""

from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools.documents.jobs.check import run
from tests.support.pdfs import PLAIN, pdf

FAR = "BT /F1 12 Tf 500 720 Td (A line that leaves the page on its right) Tj ET"
LINK = "/Annots [<< /Type /Annot /Subtype /Link /Rect [72 700 200 720] {} >>]"


def checked(folder: Path, data: bytes) -> dict[str, Any]:
    """Return what the rules find in a PDF."""
    file = folder / "a.pdf"
    file.write_bytes(data)
    return run(file=str(file), most=500, ignore=[], shown=100)


@pytest.mark.parametrize(
    ("content", "rule", "text"),
    [
        (FAR, "overfull", "A line that leaves the page on its right"),
        (PLAIN.replace("72 720", "72 -4"), "overfull", "Plain text of this page."),
        ("", "blank", ""),
        ("1 1 1 rg 0 0 612 792 re f", "blank", ""),
        ("BT /F1 9 Tf 300 40 Td (- 7 -) Tj ET", "blank", "- 7 -"),
        (PLAIN.replace("Plain", "Dear {{ name }},"), "template", "{{ name }}"),
        (PLAIN.replace("Plain", "{% if x %}"), "template", "{% if x %}"),
        (PLAIN.replace("Plain", "**Plain**"), "markdown", "**Plain**"),
        (PLAIN.replace("Plain", "## Plain"), "markdown", "## Plain text of this page."),
        (PLAIN.replace("Plain text", "| a | b |").replace(" of this page.", ""), "markdown",
         "| a | b |"),
        (PLAIN.replace("Plain", "<br>"), "html", "<br>"),
        (PLAIN.replace("Plain", "TODO"), "unfinished", "TODO"),
        (PLAIN.replace("Plain", "Lorem ipsum"), "unfinished", "Lorem ipsum"),
    ],
)  # fmt: skip
def test_page_with_a_fault_fails_and_the_fault_is_shown(
    tmp_path: Path, content: str, rule: str, text: str
) -> None:
    """Nobody reads a generated document before it is sent; the rules do."""
    told = checked(tmp_path, pdf([PLAIN, content]))

    assert (told["pages"], told["checked"]) == (2, 2)
    assert [(one["rule"], one["page"], one["text"]) for one in told["findings"]] == [
        (rule, 2, text)
    ]
    assert (told["findings"][0]["position"] is None) is (rule == "blank")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("/Dest [4 0 R /Fit]", ""),
        ("/A << /S /GoTo /D [0 /Fit] >>", ""),
        ("/A << /S /URI /URI (https://example.org) >>", ""),
        ("/Dest (chapter)", "An internal link has no target"),
        ("/A << /S /GoTo /D [99 0 R /Fit] >>", "An internal link has no target"),
        ("/A << /S /URI /URI (chapter.md) >>", "The address of a link is not complete"),
    ],
)
def test_links_that_lead_nowhere_are_found(tmp_path: Path, target: str, message: str) -> None:
    """A reader who clicks on it gets an error, or nothing."""
    told = checked(tmp_path, pdf(annotations=LINK.format(target)))

    assert bool(told["findings"]) is bool(message)
    assert all(one["message"].startswith(message) for one in told["findings"])
    assert {one["rule"] for one in told["findings"]} <= {"link"}


def test_many_findings_are_cut_and_counted(tmp_path: Path) -> None:
    """The answer has to fit a prompt."""
    told = checked(tmp_path, pdf([""] * 120))

    assert (len(told["findings"]), told["more"]) == (100, 20)


def test_document_that_is_monospaced_throughout_is_not_code(tmp_path: Path) -> None:
    """Some printers and typewriter letters use such a font for everything."""
    data = pdf([PLAIN.replace("Plain", "Dear {{ name }},")]).replace(b"/Helvetica", b"/Courier")

    told = checked(tmp_path, data)

    assert [one["rule"] for one in told["findings"]] == ["template"]
