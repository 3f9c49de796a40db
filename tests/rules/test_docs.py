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
DECISIONS = Path("docs/decisions")
MAX_DECISIONS = 80
RECORD = re.compile(
    r"# (?:\d{4}: )?(?P<title>.+)\n\nStatus: (?P<status>accepted|superseded by (?P<by>\d{4}))\n"
)
ROW = re.compile(
    r"^\| (?P<number>\d{4}) \| \[(?P<title>.+)\]\((?P<file>[^)]+)\)"
    r" \| (?P<area>[^|]+) \| (?P<status>[^|]+) \|$",
    re.MULTILINE,
)
AREAS = {
    "Application", "Cluster", "Engine", "Gateway", "Installation", "Lab", "Models", "Project",
    "Sandbox", "Speech", "Tests", "Web page",
}  # fmt: skip
RELEASE = re.compile(r"^## (\d+\.\d+\.\d+) \((\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)
HEADINGS = ["## Context", "## Decision", "## Rejected", "## Consequences"]


def test_every_fence_is_of_a_kind_that_is_held_true() -> None:
    """A block in a language that is not executed here, and without a test, is not checked."""
    odd = [
        f"{fence} {fence.language!r}"
        for page in tree.markdown()
        for fence in fences(page)
        if fence.language not in EXECUTED | READ_ONLY and not fence.elsewhere
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
    """A record without rejected alternatives cannot be discussed."""
    for record in _records():
        text = tree.text(record)
        assert RECORD.match(text), record.name
        assert [h for h in HEADINGS if h not in text] == [], record.name


def test_a_superseded_decision_names_a_record_that_exists() -> None:
    """A reader must find the decision that holds instead."""
    numbers = {record.name[:4] for record in _records()}
    superseding = {
        record.name: match["by"]
        for record in _records()
        if (match := RECORD.match(tree.text(record))) and match["by"]
    }

    assert {name: by for name, by in superseding.items() if by not in numbers} == {}
    assert [name for name, by in superseding.items() if by == name[:4]] == []


def test_index_of_decisions_is_complete_and_short() -> None:
    """The index is the only page that a newcomer reads whole."""
    rows = [match.groupdict() for match in ROW.finditer(tree.text(DECISIONS / "README.md"))]
    records = [
        {
            "file": record.name,
            "number": record.name[:4],
            "title": head["title"],
            "status": head["status"],
        }
        for record in _records()
        if (head := RECORD.match(tree.text(record)))
    ]

    assert [{k: row[k] for k in ("file", "number", "title", "status")} for row in rows] == records
    assert {row["area"] for row in rows} <= AREAS
    assert len({row["number"] for row in rows}) == len(rows)
    assert len(rows) <= MAX_DECISIONS, "merge records on the same subject"


def _records() -> list[Path]:
    """The decision records, in the order of their numbers."""
    files = sorted((tree.ROOT / DECISIONS).glob("[0-9]*.md"))
    return [file.relative_to(tree.ROOT) for file in files]


def test_glossary_is_sorted_and_defines_terms_that_are_used() -> None:
    """A definition of a term that nobody uses is one more word to learn."""
    page = Path("docs/glossary.md")
    terms = re.findall(r"^\| ([a-z][a-z -]*) \| .+\. \|$", tree.text(page), re.MULTILINE)
    rows = [line for line in tree.text(page).splitlines() if line.startswith("| ")][2:]
    pages = [other for other in tree.markdown() if other != page]
    used = "\n".join(tree.text(file).lower() for file in pages)

    assert len(terms) == len(rows)
    assert terms == sorted(set(terms))
    assert [term for term in terms if not re.search(rf"\b{term}s?\b", used)] == []


def test_readme_is_short() -> None:
    """A visitor decides on one screen whether to go on."""
    assert len(tree.text(Path("README.md")).splitlines()) <= 150


def test_changelog_fragments_are_named_for_what_they_tell() -> None:
    """A release moves the text of these files to the changelog; after it there are none."""
    names = [f.name for f in tree.files() if f.parts[0] == "changelog.d"]

    assert [name for name in names if not FRAGMENT.fullmatch(name)] == []


def test_changelog_begins_with_the_newest_release() -> None:
    """Entries are `## VERSION (DATE)`, the newest first, and short enough to read."""
    text = tree.text(Path("CHANGELOG.md"))
    releases = RELEASE.findall(text)

    assert releases
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        f"## {version} ({date})" for version, date in releases
    ]
    assert [date for _, date in releases] == sorted((d for _, d in releases), reverse=True)
    for entry in RELEASE.split(text)[3::3]:
        assert len(entry.splitlines()) <= 60


def test_every_command_of_hearth_has_help_that_names_its_options() -> None:
    """`--help` is the page that people read first."""
    ended = subprocess.run(
        [Path(sys.executable).parent / "hearth", "--help"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    for command in ("up", "down", "status", "doctor", "logs", "models", "run", "runs", "plan"):
        assert re.search(rf"^\W*{command}\s+\S", ended.stdout, re.MULTILINE), command
