"""The tool `project.docs`: the documentation of a project for a model."""

from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.memory.tokens import estimated
from pipecatapp.workflow import Context, ToolFailed

FILES = {
    "README.md": "# Shop\n\nSells things.\n\n## Prices\n\n"
    "Prices are whole cents.\n\n```\n# no\n```\n",
    "docs/orders.rst": "Orders\n======\n\nAn order has lines.\n\nReturns\n-------\n\nIn a month.\n",
    "CONTRIBUTING": "Use British spelling.",
    "CHANGELOG.md": "# Prices changed\n",
    "node_modules/x/README.md": "# Prices of another\n",
    "prices.py": "# Prices\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Context:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return Context(workspace=tmp_path)


async def docs(ctx: Context, **given: Any) -> Any:
    return await TOOLS["project.docs"].check(ctx, given)


@pytest.mark.proves("003-44")
async def test_documentation_is_listed_and_the_fitting_section_comes_first(
    project: Context,
) -> None:
    """Neither code, nor a changelog, nor pages of installed packages are the documentation."""
    found = await docs(project, text="Round the prices of an order to cents.")

    assert found["documents"] == [
        {"path": "CONTRIBUTING", "headings": []},
        {"path": "README.md", "headings": ["Shop", "Prices"]},
        {"path": "docs/orders.rst", "headings": ["Orders", "Returns"]},
    ]
    assert found["text"].startswith("README.md:\n## Prices\n\nPrices are whole cents.")
    assert "An order has lines." in found["text"]
    assert "In a month." in found["text"]  # Its path has a word of the request.
    assert "British" not in found["text"]


@pytest.mark.proves("003-44")
async def test_text_stays_within_its_budget_and_sections_are_whole(project: Context) -> None:
    """Half a rule may say the opposite."""
    assert project.workspace is not None
    long = "## Prices of all\n\n" + "A price is a price. " * 200
    (project.workspace / "docs/long.md").write_text(long, encoding="utf-8")

    found = await docs(project, text="prices", budget=60)

    assert "Prices are whole cents." in found["text"]
    assert "A price is" not in found["text"]
    assert (found["cut"], estimated(found["text"]) <= 60) == (True, True)


async def test_without_a_request_each_document_begins(project: Context) -> None:
    """The first section of each, in the order of the files."""
    found = await docs(project)

    assert found["text"].startswith("CONTRIBUTING:\nUse British spelling.\n\nREADME.md:\n# Shop")
    assert "Orders" in found["text"]
    assert "Returns" not in found["text"]


async def test_project_without_documentation_has_none(tmp_path: Path) -> None:
    """And a link to a page outside is not followed."""
    (tmp_path / "README.md").symlink_to("/etc/hostname")

    assert await docs(Context(workspace=tmp_path)) == {"documents": [], "text": "", "cut": False}
    with pytest.raises(ToolFailed, match="no workspace"):
        await docs(Context())
