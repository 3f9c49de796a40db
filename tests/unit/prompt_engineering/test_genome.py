"""Prompts as genomes: operations, diffs, and the checks before the first run."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt_engineering.cases import Case, Check
from prompt_engineering.genome import (
    Genome,
    InvalidOperation,
    MoveLine,
    ReplaceLines,
    diff_of,
    operations_between,
)
from prompt_engineering.mechanical import MECHANICAL, add_example
from prompt_engineering.prechecks import rejection

TEXT = "Answer the question of the person.\nUse the tone of {style}.\nBe brief."
SEED = Genome(prompt="p", tags=("p",), text=TEXT)
QUESTION = "which of these nine fruits is the sweetest one of all"
CASE = Case(id="a", workflow="w", inputs={"text": QUESTION}, checks=(Check(equals="fig"),))

lines = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=8).map("\n".join)


@given(lines, lines)
def test_operations_between_two_texts_change_one_into_the_other(before: str, after: str) -> None:
    """Whatever a model writes has operations and so a diff."""
    genome = Genome(prompt="p", tags=("p",), text=before)

    assert genome.changed(operations_between(before, after)).text == after


def test_line_is_moved_and_the_diff_shows_it() -> None:
    """The diff is to the parent, without file names."""
    moved = SEED.changed([MoveLine(line=2, to=0)])

    assert moved.text.split("\n")[0] == "Be brief."
    assert "+Be brief." in diff_of(SEED.text, moved.text).split("\n")


@pytest.mark.parametrize(
    "operation", [ReplaceLines(first=3, count=1), MoveLine(line=0, to=3), MoveLine(line=3, to=0)]
)
def test_operation_on_a_missing_line_is_refused(operation: ReplaceLines | MoveLine) -> None:
    """A model may name a line that does not exist."""
    with pytest.raises(InvalidOperation):
        SEED.changed([operation])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("operator", MECHANICAL)
def test_mechanical_operators_make_another_text_from_the_same_seed(
    operator: object, seed: int
) -> None:
    """The same generator makes the same change: a campaign can be resumed."""
    one, other = (operator(SEED, [CASE], random.Random(seed)) for _ in range(2))  # type: ignore[operator]

    assert one == other
    assert SEED.changed(one.operations).text != SEED.text


def test_example_is_cut_before_it_is_a_copy() -> None:
    """Seven words of the request at most, so the check for copies lets it pass."""
    mutation = add_example(SEED, [CASE], random.Random(0))

    assert mutation is not None
    changed = SEED.changed(mutation.operations)
    assert changed.text.endswith("Example: which of these nine fruits is the … → fig")
    assert rejection(changed, SEED, [SEED], [CASE]) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "The text is empty."),
        ("word " * 400 + "{style}", "The text has 2007 characters; 738 are allowed."),
        (TEXT.replace("{style}", "a friend"), "The template fields are not those of the first"),
        (TEXT + "\n", "The text is almost the same as that of another candidate."),
        (
            f"{TEXT}\nRemember: {QUESTION.upper()}? The fig.",
            "The text copies a case: '",
        ),
    ],
    ids=["empty", "long", "fields", "known", "copy"],
)
def test_candidate_is_rejected_before_its_first_run(text: str, reason: str) -> None:
    """Each check costs nothing, and a run does."""
    found = rejection(SEED.model_copy(update={"text": text}), SEED, [SEED], [CASE])

    assert found is not None
    assert found.startswith(reason)


def test_words_of_the_live_prompt_are_no_copy() -> None:
    """A prompt may quote what a case quotes, too."""
    seed = SEED.model_copy(update={"text": f"{TEXT}\n{QUESTION}"})
    changed = seed.model_copy(update={"text": f"{QUESTION}\nUse {{style}}. Think about it first."})

    assert rejection(changed, seed, [seed], [CASE]) is None
