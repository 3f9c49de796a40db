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
    """Changes, undo and redo in any order, beside a plain list of all texts.

    As many undos as changes give the same bytes, with the comments between them.
    """

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
TestAnyChangesAndAsManyUndos = Editing.TestCase


def drawn(text: str) -> set[tuple[str, str, str]]:
    value, source = read_yaml(text, file="w.yaml")
    return {(edge.origin, edge.to, edge.kind) for edge in outline(value, source).edges}


def test_only_the_latest_changes_can_be_undone() -> None:
    """A draft that is edited for years does not grow for ever."""
    history = History(text="0")
    for count in range(LONGEST + 5):
        history.change(f"{count + 1}")

    for _ in range(LONGEST):
        history.undo_change()

    assert history.text == "5"
    with pytest.raises(NothingToUndo):
        history.undo_change()


@pytest.mark.parametrize(
    ("origin", "to", "expression"),
    [
        (":inputs", "both/inner", "inputs.topic"),
        ("one", "both/inner", "one.topic"),
        ("both/inner", "both/last", "inner.topic"),
        ("both/inner", "one", "both.inner.topic"),
        ("both/inner", ":outputs", "both.inner.topic"),
    ],
)
def test_wire_is_the_expression_that_reaches_the_node(
    origin: str, to: str, expression: str
) -> None:
    """Names are looked up in the scopes around a node; the outline draws what was wired."""
    changed = done(
        TEXT, {"op": "wire", "from": origin, "output": "topic", "to": to, "input": "wired"}
    )

    assert f"{{{{ {expression} }}}}" in changed
    assert (origin, to, "data") in drawn(changed)


def test_unwire_keeps_text_that_a_person_wrote() -> None:
    """Only an input that is nothing but the wire is removed."""
    wired = done(TEXT, {"op": "wire", "from": "one", "to": "both"})

    assert ("one", "both", "order") in drawn(wired)
    assert done(wired, {"op": "unwire", "from": "one", "to": "both"}) == TEXT
    mixed = TEXT.replace('value: "{{ inner.value }}"', 'value: "so: {{ inner.value }}"')
    with pytest.raises(NotEdited, match="other text"):
        done(mixed, {"op": "unwire", "from": "both/inner", "to": "both/last"})


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ({"op": "wire", "from": "none", "to": "one", "input": "value"}, "no node 'none'"),
        ({"op": "wire", "from": "both", "to": "both/inner", "input": "value"}, "contains"),
        ({"op": "wire", "from": "one", "to": ":outputs", "input": "A b"}, "not a valid name"),
        ({"op": "wire", "from": "one", "to": "both/inner"}, "choose an input"),
        ({"op": "unwire", "from": "one", "to": "both"}, "only this wire"),
        ({"op": "replace", "start": 2, "end": 9999, "text": ""}, "outside"),
    ],
)
def test_wrong_operation_is_refused_with_its_reason(operation: dict[str, Any], reason: str) -> None:
    """A slip with the mouse changes nothing."""
    with pytest.raises(NotEdited, match=reason):
        done(TEXT, operation)


def test_last_node_leaves_an_empty_list_and_the_first_one_gets_lines() -> None:
    """A scope can be emptied and filled again without a broken text."""
    text = "id: w\ngraph: # nodes\n- id: a\n  use: value\n# the end\n"

    emptied = done(text, {"op": "remove", "path": "a"})

    assert emptied == "id: w\ngraph: [] # nodes\n# the end\n"
    filled = done(emptied, {"op": "add", "node": {"id": "b", "use": "value"}})
    assert "- id: b\n  use: value\n" in filled


def test_lists_of_two_indentations_are_edited_soundly() -> None:
    """A list inside a node may be indented in another way than the nodes themselves."""
    text = "id: w\ngraph:\n- id: a\n  use: value\n- id: b\n  use: value\n  needs:\n    - a\n"

    changed = done(text, {"op": "rename", "path": "a", "to": "z"})

    value, _ = read_yaml(changed, file="w.yaml")
    assert value["graph"] == [{"id": "z", "use": "value"},
                              {"id": "b", "use": "value", "needs": ["z"]}]  # fmt: skip


def test_patch_is_the_smallest_range() -> None:
    """A patch of a long text holds only what has changed."""
    patch = patch_between("a" * 9 + "b" + "c" * 9, "a" * 9 + "dd" + "c" * 9)

    assert (patch.at, patch.removed, patch.inserted) == (9, "b", "dd")
