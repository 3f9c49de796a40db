"""A node with another id: all that names it follows, and nothing else changes."""

import re
from typing import Any

import pytest
from pydantic import TypeAdapter

from pipecatapp.application.documents.editing import NotEdited, Operation, edited
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import compile_workflow, load_document

OPERATIONS: TypeAdapter[list[Operation]] = TypeAdapter(list[Operation])
TEXT = """\
id: w
inputs: {test: text}
steps:
  - {id: said, use: value, with: {value: "{{ inputs.test }} test"}}
  - id: attempt   # the loop
    until: "{{ test.value == 1 and said.value != 'test' }}"
    max: 3
    stuck_on: "{{ test.value }}"
    steps:
      - {id: before, use: value, with: {value: "{{ prev.test.value or 'test' }}"}}
      - id: test   # what is tested
        use: value
        with: {value: "{{ {'test': 1}['test'] }}"}
        check: {"test is wrong": "{{ test.value is number }}"}
      - {id: later, use: value, needs: [test], with: {value: "test {{ test.value }}"}}
      - {id: again, goto: test, max: 1, if: "{{ test.value > 1 }}"}
      - {id: deep, steps: [{id: inner, use: value, with: {value: "{{ first(test.value, 1) }}"}}]}
  - {id: test, use: value, with: {value: "{{ attempt.last.test.value }}"}}
outputs:
  one: "{{ attempt.all[0].test.value }}"
  all: "{{ attempt.all | map(attribute='test.value') | list }}"
  own: "{{ test.value }}"
"""


def renamed(text: str, path: str, to: str) -> str:
    operation: dict[str, Any] = {"op": "rename", "path": path, "to": to}
    return edited(text, OPERATIONS.validate_python([operation]))


def test_all_that_names_a_node_follows_and_the_rest_stays() -> None:
    """A name that is not good any more must not be kept because of its readers."""
    text = TEXT.replace("  - {id: test, use", "  - {id: end, use")
    text = text.replace('own: "{{ test', 'own: "{{ end')

    after = renamed(text, "attempt/test", "trial")

    compile_workflow(load_document(after, file="w"), TOOLS)
    assert re.findall(r"[^\n]*\btest\b[^\n]*", after) == [
        "inputs: {test: text}",
        '  - {id: said, use: value, with: {value: "{{ inputs.test }} test"}}',
        "    until: \"{{ trial.value == 1 and said.value != 'test' }}\"",
        "      - {id: before, use: value, with: {value: \"{{ prev.trial.value or 'test' }}\"}}",
        "        with: {value: \"{{ {'test': 1}['test'] }}\"}",
        '        check: {"test is wrong": "{{ trial.value is number }}"}',
        '      - {id: later, use: value, needs: [trial], with: {value: "test {{ trial.value }}"}}',
    ]
    assert renamed(after, "attempt/trial", "test") == text


def test_node_around_others_is_followed_too() -> None:
    """Its parts are read through it."""
    text = TEXT.replace("  - {id: test, use", "  - {id: end, use")
    text = text.replace('own: "{{ test', 'own: "{{ end')

    after = renamed(text, "attempt", "tries")

    assert "attempt" not in after
    compile_workflow(load_document(after, file="w"), TOOLS)
    assert "tries.all | map(attribute='test.value')" in after


@pytest.mark.parametrize("path", ["nope", "attempt/nope"])
def test_node_that_is_not_there_is_refused(path: str) -> None:
    """A rename of nothing would be taken for done."""
    with pytest.raises(NotEdited):
        renamed(TEXT, path, "x")
