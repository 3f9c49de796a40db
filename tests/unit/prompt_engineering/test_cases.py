"""Cases, their checks, and how they are divided."""

from collections import Counter
from pathlib import Path

import pytest
from pydantic import ValidationError

from prompt_engineering.cases import Case, Check, InvalidCases, case_file, read_cases
from prompt_engineering.splits import SHARES, assign, digest, members, split_of


def case(id: str, fingerprint: str = "") -> Case:
    """A case whose inputs no other case has."""
    check = Check(contains="yes")
    return Case(
        id=id, workflow="w", inputs={"text": id}, checks=(check,), fingerprint=fingerprint
    )  # fmt: skip


@pytest.mark.parametrize(
    ("check", "passing", "failing"),
    [
        ({"equals": "yes"}, " yes\n", "yes."),
        ({"one_of": ["yes", "no"]}, "no", "maybe"),
        ({"contains": "es"}, "yes", "no"),
        ({"lacks": "es"}, "no", "yes"),
        ({"matches": r"^\d+$"}, "42", "42 and more"),
        ({"max_words": 2}, "two words", "three more words"),
    ],
)
def test_check_passes_and_fails_with_a_message(
    check: dict[str, object], passing: str, failing: str
) -> None:
    """The message is what the mutator learns from: it names the condition and the output."""
    made = Check.model_validate(check)

    assert made.failure({"text": passing}) is None
    message = made.failure({"text": failing})
    assert message is not None
    assert next(iter(check)) in message
    assert failing in message


def test_output_that_is_missing_or_no_text() -> None:
    """A workflow may have several outputs."""
    assert Check(output="n", equals="3").failure({"n": 3}) is None
    assert Check(output="n", equals="3").failure({}) == "The run has no output 'n'."


@pytest.mark.parametrize("fields", [{}, {"equals": "a", "lacks": "b"}, {"matches": "("}])
def test_check_needs_exactly_one_valid_condition(fields: dict[str, str]) -> None:
    """A check that cannot fail would let every prompt pass."""
    with pytest.raises(ValidationError):
        Check.model_validate(fields)


def test_cases_survive_their_file(tmp_path: Path) -> None:
    """What the adaptation manager writes is what a campaign reads."""
    written = [case("a", "kind"), case("b")]
    (tmp_path / "one.yaml").write_text(case_file(written), encoding="utf-8")

    assert read_cases([tmp_path]) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cases: [", "cannot be read"),
        ("cases: []", "at least 1 item"),
        ("cases: [{id: a, workflow: w, checks: []}]", "cases.0.checks"),
        ("cases: [{id: a, workflow: w, checks: [{equals: x}], more: 1}]", "cases.0.more"),
        (case_file([case("a"), case("a")]), "'a' and 'a'"),
        (case_file([case("a"), case("b").model_copy(update={"inputs": {"text": "a"}})]), "'a' and"),
    ],
)
def test_file_that_is_not_valid_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """The error names the file or the two cases."""
    (file := tmp_path / "wrong.yaml").write_text(text, encoding="utf-8")

    with pytest.raises(InvalidCases, match=message):
        read_cases([file])


def test_hash_divides_cases_by_the_shares() -> None:
    """Within four standard deviations of 3000 cases."""
    counts = Counter(split_of(f"case-{number}") for number in range(3000))

    for split, share in SHARES.items():
        assert abs(counts[split] - 3000 * share) < 4 * (3000 * share * (1 - share)) ** 0.5


def test_members_of_one_failure_are_in_different_splits() -> None:
    """Learn and gate have a member each; the first one alone is learned from."""
    (first,) = assign([case("a", "kind")], {}).values()
    both = assign([case("a", "kind"), case("b", "kind")], {"a": "learn"})
    many = assign([case(f"c{number}", "kind") for number in range(3)], {})

    assert first == "learn"
    assert both == {"a": "learn", "b": "gate"}
    assert sorted(many.values()) == ["gate", "learn", "select"]


def test_case_keeps_its_split_when_others_come() -> None:
    """Otherwise a case that was learned from could be one of the gate."""
    before = assign([case(f"m{number}", "kind") for number in range(5)], {})

    after = assign([case(f"{letter}{n}", "kind") for letter in "am" for n in range(5)], before)

    assert {id: after[id] for id in before} == before


def test_digest_changes_with_a_check() -> None:
    """Scores measured with other checks do not compare."""
    changed = case("a").model_copy(update={"checks": (Check(contains="no"),)})

    assert digest([case("a"), case("b")]) == digest([case("b"), case("a")])
    assert digest([case("a")]) != digest([changed])


def test_order_of_members_does_not_depend_on_the_file() -> None:
    """All candidates meet the cases in one order, also in a campaign that was resumed."""
    cases = [case(f"case-{number}") for number in range(30)]
    assignment = assign(cases, {})

    assert members(cases, assignment, "select") == members(cases[::-1], assignment, "select")
