"""Rules for the documentation. That its commands work is shown in tests/acceptance."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import reference
from tests.acceptance.fences import EXECUTED, READ_ONLY, fences
from tests.rules import tree

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FRAGMENT = re.compile(r"\d+(-[a-z0-9-]+)?\.(added|changed|fixed|removed|security)\.md")
HEADINGS = ["## Context", "## Decision", "## Rejected", "## Consequences"]


def test_every_fence_is_of_a_kind_that_is_held_true() -> None:
    """A block in an unknown language would be text that nobody checks."""
    odd = [
        f"{fence} {fence.language!r}"
        for page in tree.markdown()
        for fence in fences(page)
        if fence.language not in EXECUTED | READ_ONLY
    ]

    assert odd == []


@pytest.mark.proves("001-41")
def test_every_fence_shown_elsewhere_names_a_test_that_takes_it_from_the_page() -> None:
    """The mark that takes a block out of execution must not be a way out."""
    for page in tree.markdown():
        for fence in fences(page):
            if fence.elsewhere:
                file, _, name = fence.elsewhere.partition("::")
                assert "shown" in _arguments(Path(file), name), str(fence)
                assert not file.startswith("tests/rules"), f"{fence}: a rule runs no command"


def _arguments(file: Path, name: str) -> list[str]:
    """The fixtures that a test asks for; none where there is no such test."""
    return [
        argument.arg
        for node in ast.parse(tree.text(file)).body
        if isinstance(node, ast.FunctionDef) and node.name == name
        for argument in node.args.args
    ]


def test_every_link_leads_to_a_file() -> None:
    """A dead link is the first thing that a new reader finds."""
    dead = [
        f"{page}: {target}"
        for page in tree.markdown()
        for target in LINK.findall(tree.text(page))
        if "://" not in target and not (tree.ROOT / page.parent / target).exists()
    ]

    assert dead == []


@pytest.mark.proves("001-39")
@pytest.mark.parametrize("page", sorted(reference.PAGES))
def test_generated_reference_page_is_current(page: str) -> None:
    """Reference pages follow from the code; `make docs` writes them."""
    assert tree.text(Path("docs/reference") / page) == reference.PAGES[page]()


def test_decision_records_have_one_form() -> None:
    """A record without what was rejected cannot be argued with."""
    for record in sorted((tree.ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        text = record.read_text(encoding="utf-8")
        assert re.match(r"# .+\n\nStatus: accepted\n", text), record.name
        assert [h for h in HEADINGS if h not in text] == [], record.name


def test_changelog_fragments_are_named_for_what_they_tell() -> None:
    """The changelog is put together from these files."""
    names = [f.name for f in tree.files() if f.parts[0] == "changelog.d"]

    assert names
    assert [name for name in names if not FRAGMENT.fullmatch(name)] == []


def test_every_command_of_hearth_has_help_that_names_its_options() -> None:
    """`--help` is the page that people read first."""
    ended = subprocess.run(
        [Path(sys.executable).parent / "hearth", "--help"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    for command in ("up", "down", "status", "doctor", "logs", "models", "run", "runs", "plan"):
        assert re.search(rf"^\W*{command}\s+\S", ended.stdout, re.MULTILINE), command
