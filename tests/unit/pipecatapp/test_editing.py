"""Edited texts: what is not touched stays as it was, to the letter."""

import re
from typing import Any

import pytest
from pydantic import TypeAdapter

from pipecatapp.application.documents.editing import NotEdited, Operation, edited
from pipecatapp.workflow import load_document

OPERATIONS: TypeAdapter[list[Operation]] = TypeAdapter(list[Operation])
TEXT = """\
# What a person wrote, in their own way.
id:   w      # aligned
inputs: { text: text,   n: {type: integer, default: 3} }

# about the steps
steps:
  # first one
  - id: a   # is a
    use: text.upper
    with:
      text: '{{ inputs.text }}'   # quoted so

  - {id: b, use: text.upper, with: {text: "{{ a.text }}"}}   # b here
  # the last
  - id: c
    if: "{{ inputs.n > 2 }}"
    steps:
      - {id: d, use: text.upper, with: {text: 'x'}}
      - {id: e, use: text.upper, with: {text: 'y'}}
    else:
      - id: f   # otherwise
        use: text.upper
        with: {text: z}
outputs: {text:   "{{ b.text }}"}  # end
"""


def done(*operations: dict[str, Any]) -> str:
    return edited(TEXT, OPERATIONS.validate_python(operations))


def changed(*operations: dict[str, Any]) -> list[str]:
    """Lines that are new, with `+`, and lines that are gone, with `-`, in the order of the text."""
    before, after = TEXT.splitlines(), done(*operations).splitlines()
    return [f"-{x}" for x in before if x not in after] + [f"+{x}" for x in after if x not in before]


@pytest.mark.parametrize(
    ("operation", "lines"),
    [
        (
            {"op": "set", "path": "a.with.text", "value": "new"},
            ["-      text: '{{ inputs.text }}'   # quoted so", "+      text: 'new' # quoted so"],
        ),
        ({"op": "set", "path": "a.timeout", "value": "3s"}, ["+    timeout: 3s"]),
        ({"op": "set", "path": ".limits.nodes", "value": 7}, ["+limits:", "+  nodes: 7"]),
        ({"op": "set", "path": "f.model", "value": "m"}, ["+        model: m"]),
        ({"op": "remove", "path": "a.use"}, ["-    use: text.upper"]),
        (
            {"op": "remove", "path": "b"},
            ['-  - {id: b, use: text.upper, with: {text: "{{ a.text }}"}}   # b here'],
        ),
        ({"op": "remove", "path": "c/d"}, ["-      - {id: d, use: text.upper, with: {text: 'x'}}"]),
        (
            {"op": "remove", "path": "a"},
            ["-  # first one", "-  - id: a   # is a", "-    use: text.upper", "-    with:",
             "-      text: '{{ inputs.text }}'   # quoted so"],
        ),
        (
            {"op": "add", "in": "c", "after": "d", "node": {"id": "g", "use": "time.now"}},
            ["+      - id: g", "+        use: time.now"],
        ),
    ],
)  # fmt: skip
def test_only_the_lines_that_are_touched_change(
    operation: dict[str, Any], lines: list[str]
) -> None:
    """The editor of the page may be used beside an editor of texts: comments and order survive."""
    found = [re.sub(r" +#", " #", line) for line in changed(operation)]

    assert found == [re.sub(r" +#", " #", line) for line in lines]
    assert "# What a person wrote, in their own way." in done(operation)


def test_nodes_are_moved_with_their_comments() -> None:
    """A comment belongs to what stands below it."""
    after = done({"op": "move", "path": "c", "after": None})

    assert after.index("# the last") < after.index("- id: c") < after.index("# first one")
    assert sorted(after.splitlines()) == sorted(TEXT.splitlines())
    later = done({"op": "move", "path": "a", "after": "b"})
    assert later.index("- {id: b") < later.index("# first one") < later.index("# the last")
    assert [step.id for step in load_document(after, file="w").document.steps or []] == [
        "c",
        "a",
        "b",
    ]


def test_operations_are_done_in_their_order() -> None:
    """An edit of the page is one request: a new node, its fields, and who reads it."""
    after = load_document(
        done(
            {"op": "add", "after": "a", "node": {"id": "n", "use": "text.upper"}},
            {"op": "set", "path": "n.with.text", "value": "two\nlines"},
            {"op": "set", "path": "b.with.text", "value": "{{ n.text }}"},
            {"op": "remove", "path": "c"},
        ),
        file="w",
    )

    steps = after.document.steps or []
    assert [step.id for step in steps] == ["a", "n", "b"]
    assert [step.given["text"] for step in steps[1:]] == ["two\nlines", "{{ n.text }}"]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "set", "path": "x.use", "value": 1},
        {"op": "set", "path": "a", "value": 1},
        {"op": "remove", "path": "a.timeout"},
        {"op": "remove", "path": "c/x"},
        {"op": "add", "in": "a", "node": {"id": "n"}},
        {"op": "add", "after": "x", "node": {"id": "n"}},
        {"op": "move", "path": "a", "after": "x"},
    ],
)
def test_operation_about_nothing_is_refused(operation: dict[str, Any]) -> None:
    """An edit that would do nothing, or something else, is told."""
    with pytest.raises(NotEdited):
        done(operation)


@pytest.mark.parametrize("letter", ["\u2028", "\u2029", "\x85"])
def test_letter_that_only_python_ends_a_line_at_does_not_cut_another_node(letter: str) -> None:
    """Texts that are pasted hold such letters; the wrong step would be gone without a word."""
    text = (
        f"id: w\nabout: one{letter}two\nsteps:\n"
        "  - id: a\n    use: now\n  - id: b\n    use: then\n  - id: c\n    use: last\n"
    )

    gone = edited(text, OPERATIONS.validate_python([{"op": "remove", "path": "b"}]))
    first = edited(text, OPERATIONS.validate_python([{"op": "move", "path": "c"}]))

    assert gone == text.replace("  - id: b\n    use: then\n", "")
    assert first == text.replace("  - id: c\n    use: last\n", "").replace(
        "steps:\n", "steps:\n  - id: c\n    use: last\n"
    )
