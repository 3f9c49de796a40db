"""Drafts: undo gives every earlier text again, wires are expressions, and outlines need no plan."""

import re
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pydantic import TypeAdapter

from pipecatapp.application.documents.editing import NotEdited, Operation, edited
from pipecatapp.application.documents.history import (
    LONGEST,
    History,
    NothingToUndo,
    patch_between,
)
from pipecatapp.application.documents.outline import outline
from pipecatapp.workflow.syntax import read_yaml

OPERATIONS: TypeAdapter[list[Operation]] = TypeAdapter(list[Operation])
TEXT = """\
# What a person wrote.
id: w   # its name
inputs: {topic: text}
graph:
  # the first
  - id: one   # is one
    use: value
    with: {value: "{{ inputs.topic }}"}
  # a scope
  - id: both
    steps:
      - id: inner   # inside
        use: value
        with:
          value: x
      - {id: last, use: value, with: {value: "{{ inner.value }}"}}
outputs: {text: "{{ one.value }}"}
# the end
"""
COMMENTS = ("# What a person wrote.", "# its name", "# the end")
PATHS = st.sampled_from(["one", "both", "both/inner", "both/last", "new", ":inputs", ":outputs"])
WORDS = st.text("abc #:\n{}é😀", max_size=12)
CHANGES = st.one_of(
    st.builds(lambda path, value: {"op": "set", "path": f"{path}.with.value", "value": value},
              PATHS, st.one_of(WORDS, st.integers(), st.booleans())),
    st.builds(lambda scope, id: {"op": "add", "in": scope, "node": {"id": id, "use": "value"}},
              st.sampled_from(["", "both", "one"]), st.sampled_from(["new", "other"])),
    st.builds(lambda path: {"op": "remove", "path": path}, PATHS),
    st.builds(lambda path, to: {"op": "rename", "path": path, "to": to},
              PATHS, st.sampled_from(["one", "new", "else_where"])),
    st.builds(lambda path, after: {"op": "move", "path": path, "after": after},
              PATHS, st.sampled_from([None, "one", "inner", "both"])),
    st.builds(lambda a, b, into: {"op": "wire", "from": a, "to": b, "input": into},
              PATHS, PATHS, st.sampled_from(["", "value", "text"])),
    st.builds(lambda a, b: {"op": "unwire", "from": a, "to": b}, PATHS, PATHS),
)  # fmt: skip


def done(text: str, *operations: dict[str, Any]) -> str:
    return edited(text, OPERATIONS.validate_python(list(operations)))


class Editing(RuleBasedStateMachine):
    """Changes, undo and redo in any order, beside a plain list of all texts."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(text=TEXT)
        self.texts, self.at = [TEXT], 0

    @rule(change=CHANGES)
    def change(self, change: dict[str, Any]) -> None:
        try:
            text = done(self.history.text, change)
        except NotEdited:
            return
        self._follow(text)
        assert all(comment in text for comment in COMMENTS)

    @rule(start=st.integers(0, 40), length=st.integers(0, 3), words=WORDS.map(lambda w: f"# {w}"))
    def comment(self, start: int, length: int, words: str) -> None:
        """Type a line of comment at the beginning of some line."""
        starts = [found.end() for found in re.finditer("\n", self.history.text)]
        at = starts[min(start, len(starts) - 1)]
        line = re.sub(r"[\n]", " ", words) + "\n"
        self._follow(
            done(self.history.text, {"op": "replace", "start": at, "end": at, "text": line})
        )

    def _follow(self, text: str) -> None:
        if text != self.history.text:
            del self.texts[self.at + 1 :]
            self.texts.append(text)
            self.at += 1
        self.history.change(text)

    @rule()
    def undo(self) -> None:
        if self.at:
            self.at -= 1
            self.history.undo_change()
        else:
            with pytest.raises(NothingToUndo):
                self.history.undo_change()

    @rule()
    def redo(self) -> None:
        if self.at < len(self.texts) - 1:
            self.at += 1
            self.history.redo_change()
        else:
            with pytest.raises(NothingToUndo):
                self.history.redo_change()

    @invariant()
    def text_is_that_of_the_list(self) -> None:
        assert self.history.text == self.texts[self.at]

    @invariant()
    def text_is_an_outline(self) -> None:
        value, source = read_yaml(self.history.text, file="w.yaml")
        assert outline(value, source).nodes

    def teardown(self) -> None:
        while self.history.undo:
            self.history.undo_change()
        assert self.history.text == TEXT


Editing.TestCase.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)


class TestAnyChangesAndAsManyUndos(Editing.TestCase):
    """As many undos as changes give the same bytes, with the comments between them."""
