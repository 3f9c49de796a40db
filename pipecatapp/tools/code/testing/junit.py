"""Test results in JUnit XML, as pytest writes it with `junit_family=xunit1`."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final
from xml.etree import ElementTree

from pipecatapp.tools.code.testing.outcome import CaseOutcome, CaseResult

MESSAGE: Final = 2000
"""Characters of a message that are kept."""
OUTCOMES: Final[dict[str, CaseOutcome]] = {
    "failure": "failed",
    "error": "error",
    "skipped": "skipped",
}


def parse_junit(report: bytes, folder: str = "") -> list[CaseResult] | None:
    """Return the tests of a report; None if it is not a report.

    `folder` is where the command was run, from the workspace. A report with a document type is
    refused: its entities could expand to any size.
    """
    if b"<!DOCTYPE" in report:
        return None
    try:
        root = ElementTree.fromstring(report)
    except (ElementTree.ParseError, ValueError, LookupError):
        return None
    return [_case(one, folder) for one in _cases(root)]


def _cases(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    suites = [root] if root.tag == "testsuite" else root.findall("testsuite")
    for suite in suites:
        yield from suite.findall("testcase")


def _case(case: ElementTree.Element, folder: str) -> CaseResult:
    found = [child for child in case if child.tag in OUTCOMES]
    outcome = OUTCOMES[found[0].tag] if found else "passed"
    file, line = case.get("file"), _number(case.get("line"))
    return CaseResult(
        id=_id(file, case.get("classname", ""), case.get("name", "")),
        outcome=outcome,
        seconds=_seconds(case.get("time")),
        message=_message(found[0]) if found else "",
        file=str(PurePosixPath(folder, file)) if file else None,
        line=None if line is None else line + 1,
    )


def _id(file: str | None, classname: str, name: str) -> str:
    """Return pytest's node id: the class name is the module, and the classes inside it."""
    if not file:
        return f"{classname}::{name}" if classname else name
    module = file.removesuffix(".py").replace("/", ".")
    if name == module and not classname:
        return file  # a file that could not be imported
    classes = classname.removeprefix(module).strip(".")
    return "::".join([file, *filter(None, classes.split(".")), name])


def _message(found: ElementTree.Element) -> str:
    text = (found.text or "").strip()
    message = found.get("message") or ""
    if message in ("", "collection failure"):
        message = text
    return message[:MESSAGE]


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 12 else None


def _seconds(text: str | None) -> float:
    try:
        return round(float(text or 0), 3)
    except ValueError:
        return 0.0
