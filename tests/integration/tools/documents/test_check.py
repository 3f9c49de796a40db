"""The tool `doc.check` in the real sandbox."""

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.documents.conftest import work, write
from tests.support.pdfs import ENCRYPTED, PLAIN, pdf

CHECK = TOOLS["doc.check"]
LONG = "This is a line of text with many words, and there are several of them. " * 6
CODE = f"```\n{'code_' * 20}\n```"
FAR = "BT /F1 12 Tf 500 720 Td (A line that leaves the page on its right) Tj ET"


@pytest.mark.proves("001-26")
async def test_pdf_with_faults_fails_and_each_fault_is_shown(ctx: Context) -> None:
    """Nobody reads a generated document before it is sent; the rules do."""
    template = PLAIN.replace("Plain", "Dear {{ name }}, **Plain**")
    (work(ctx) / "good.pdf").write_bytes(pdf())
    (work(ctx) / "bad.pdf").write_bytes(pdf([PLAIN, FAR, "", template]))

    good = await CHECK.check(ctx, {"path": "good.pdf"})
    told = await CHECK.check(ctx, {"path": "bad.pdf"})

    assert (good["ok"], good["findings"]) == (True, [])
    assert (told["ok"], told["pages"], told["checked"]) == (False, 4, 4)
    assert [(one["rule"], one["page"], one["text"]) for one in told["findings"]] == [
        ("overfull", 2, "A line that leaves the page on its right"),
        ("blank", 3, ""),
        ("template", 4, "{{ name }}"),
        ("markdown", 4, "**Plain**"),
    ]
    assert told["findings"][0]["position"]["left"] > 490
    assert told["text"].splitlines()[2] == (
        "Page 4: A template was not filled in. Text: {{ name }}"
    )


@pytest.mark.proves("001-26")
async def test_faults_of_a_written_report_are_found_and_its_code_is_not(ctx: Context) -> None:
    """Braces and asterisks are right in code; a line of code that is too long is not."""
    good = f"# A\n\n{LONG}\n\n{LONG}\n\nUse `{{{{ name }}}}` and `**x**`.\n\n```\n| a | b |\n```\n"
    await write(ctx, good, "good.pdf")
    await write(ctx, f"{good}\n{CODE}\n\nMissing: \U00012000.\n", "bad.pdf")

    fine = await CHECK.check(ctx, {"path": "good.pdf"})
    told = await CHECK.check(ctx, {"path": "bad.pdf"})
    less = await CHECK.check(ctx, {"path": "bad.pdf", "ignore": ["overfull", "glyph"]})

    assert (fine["ok"], fine["findings"], fine["text"]) == (
        True, [], "Nothing was found on 1 page.",
    )  # fmt: skip
    assert {one["rule"] for one in told["findings"]} == {"overfull", "glyph"}
    (long,) = (one for one in told["findings"] if one["rule"] == "overfull")
    assert "into the right margin" in long["message"]
    assert 60 < long["position"]["left"] < 90
    assert 500 < long["position"]["left"] + long["position"]["width"] < 595
    assert less["ok"]


async def test_pdf_that_cannot_be_opened_is_not_good(ctx: Context) -> None:
    """A check that could not look must not pass."""
    (work(ctx) / "a.pdf").write_bytes(pdf(trailer=ENCRYPTED))

    with pytest.raises(ToolFailed, match="cannot be checked: it is encrypted"):
        await CHECK.check(ctx, {"path": "a.pdf"})
