"""Layers, variants and what documents extend: who wins, and who is told what is wrong."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from pipecatapp.workflow import (
    Documents,
    InvalidDocument,
    Layer,
    Tool,
    compile_workflow,
    flat_text,
    load_document,
    read_document,
    read_layer,
)
from pipecatapp.workflow.running.agent import agent
from tests.unit.workflow.tools import TOOLS

ALL: dict[str, Tool] = {tool.name: tool for tool in (agent, *TOOLS)}
BASE = """
id: base
about: What others build on.
inputs: {topic: text, size: {type: integer, default: 3}}
limits: {nodes: 50, wall: 60s}
steps:
  - id: split
    tags: [first]
    steps:
      - {id: writer, use: llm, model: fast, with: {text: "Write {{ inputs.topic }}"}}
  - {id: check, use: text.upper, with: {text: "{{ split.writer.text }}"}}
variants:
  speed:
    careful: {set: {split/writer.model: slow, split/writer.with.max_tokens: 90}}
    quick: {disable: [check]}
outputs: {text: "{{ split.writer.text }}"}
"""
OVER = """
id: over
extends: base
select: {speed: careful}
limits: {nodes: 20}
inputs: {topic: {type: text, default: snow}}
set: {split/writer.with.text: "Say {{ inputs.topic }}"}
add: [{after: split, node: {id: loud, use: text.upper, with: {text: "{{ split.writer.text }}"}}}]
"""
LAYER = """
kind: layer
id: terse
of: over
set: {split/writer.with.max_tokens: 9, .about: Short.}
append: {split.tags: [second]}
disable: [check]
"""


def library(*texts: str) -> Documents:
    documents = Documents()
    for number, text in enumerate(texts):
        documents.add(read_document(text, file=f"{number}.yaml"))
    return documents


def composed(
    text: str, layers: Sequence[str] = (), select: dict[str, str] | None = None, *bases: str
) -> dict[str, Any]:
    documents = library(*(bases or (BASE, OVER)))
    read = [read_layer(layer, file="layer.yaml") for layer in layers]
    return documents.composition(read_document(text, file="w.yaml"), read, select).value


def faults(text: str, *layers: str, select: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(InvalidDocument) as caught:
        composed(text, layers, select)
    return [str(one) for one in caught.value.diagnostics]


def test_document_stands_over_what_it_extends() -> None:
    """What it says wins, the rest stays; lists of nodes are changed, not written out again."""
    value = composed(OVER)

    assert value["id"] == "over"
    assert value["about"] == "What others build on."
    assert value["limits"] == {"nodes": 20, "wall": "60s"}
    assert value["inputs"]["topic"] == {"type": "text", "default": "snow"}
    assert value["inputs"]["size"] == {"type": "integer", "default": 3}
    assert [node["id"] for node in value["steps"]] == ["split", "loud", "check"]
    writer = value["steps"][0]["steps"][0]
    assert writer["with"] == {"text": "Say {{ inputs.topic }}", "max_tokens": 90}
    assert not {"extends", "select", "variants", "set", "add"} & value.keys()


@pytest.mark.proves("003-02")
def test_layer_changes_only_what_it_names_and_no_file() -> None:
    """The stored documents stay as they are; who asks for a field is told who wins, and where."""
    documents = library(BASE, OVER)
    before = read_document(OVER, file="w.yaml")
    plain = documents.composition(before).value

    laid = documents.composition(before, [read_layer(LAYER, file="layer.yaml")])

    writer = laid.value["steps"][0]["steps"][0]
    assert writer["with"] == {"text": "Say {{ inputs.topic }}", "max_tokens": 9}
    assert (laid.value["about"], laid.value["steps"][0]["tags"]) == ("Short.", ["first", "second"])
    assert [node["id"] for node in laid.value["steps"]] == ["split", "loud"]
    assert documents.composition(before).value == plain
    assert [(one.by, one.what, one.value) for one in laid.explain("split/writer.with.max_tokens")][
        :2
    ] == [("layer terse", "set", 9), ("variant speed.careful", "set", 90)]
    assert laid.explain(".about")[0].place == "layer.yaml:5:40"


def test_later_layers_are_stronger() -> None:
    """Of two that speak of one field the one that was named last wins."""
    one, two = (
        f"kind: layer\nid: l{n}\nof: over\nset: {{split/writer.model: m{n}}}" for n in (1, 2)
    )

    assert composed(OVER, [one, two])["steps"][0]["steps"][0]["model"] == "m2"
    assert composed(OVER, [two, one])["steps"][0]["steps"][0]["model"] == "m1"


def test_variant_is_selected_by_the_document_or_the_run() -> None:
    """A document says which variant it means; who starts it may say otherwise."""
    assert "max_tokens" in composed(OVER)["steps"][0]["steps"][0]["with"]
    quick = composed(OVER, select={"speed": "quick"})
    assert [node["id"] for node in quick["steps"]] == ["split", "loud"]
    assert quick["steps"][0]["steps"][0]["model"] == "fast"


@pytest.mark.parametrize("strongest", range(8))
def test_order_of_strength(strongest: int) -> None:
    """From what a base states to a run's last layer: without the strongest the next one holds."""

    def document(head: str, first: int) -> str:
        says = (
            f"about: '{first}'",
            f"variants: {{axis{first + 1}: {{x: {{set: {{.about: '{first + 1}'}}}}}}}}",
            f"set: {{.about: '{first + 2}'}}",
        )
        return "\n".join([head, *says[: max(0, strongest - first + 1)]])

    base, over = document("id: base\nsteps: []", 0), document("id: over\nextends: base", 3)
    select = {f"axis{number}": "x" for number in (1, 4) if number <= strongest}
    layers = [
        f"kind: layer\nid: l{number}\nof: over\nset: {{.about: '{number}'}}"
        for number in (6, 7)
        if number <= strongest
    ]

    assert composed(over, layers, select, base)["about"] == str(strongest)


def test_node_after_nothing_is_the_first() -> None:
    """A later layer goes before it."""
    layer = "kind: layer\nid: a\nof: base\nadd: [{{after: '', node: {{id: {}, use: value}}}}]\n"

    found = composed(BASE, [layer.format("one"), layer.format("two")])

    assert [node["id"] for node in found["steps"]] == ["two", "one", "split", "check"]


def test_opinion_about_nothing_is_a_fault() -> None:
    """A layer for a document that has moved on says so, instead of doing half of what it should."""
    assert faults(
        OVER,
        """
kind: layer
id: lost
of: over
add: [{in: splat, node: {id: x, use: y}}, {after: chek, node: {id: x, use: y}}]
set: {split/wirter.model: m, check: m, check.id: m, check.with.text: fine}
append: {check.tags: [x]}
disable: [split/checks]
""",
    ) == [
        "layer.yaml:5:7: there is no node 'splat'. Did you mean 'split'?",
        "layer.yaml:5:43: there is no node 'chek' there. Did you mean 'check'?",
        "layer.yaml:6:27: there is no node 'split/wirter'. Did you mean 'writer'?",
        "layer.yaml:6:37: 'check' names no field. Write `node.field`, or `.field` for the workflow",
        "layer.yaml:6:50: `id` cannot be set. Use `add` and `disable` for nodes",
        "layer.yaml:7:22: there is no list at 'check.tags' to append to. Use `set`",
        "layer.yaml:8:11: there is no node 'split/checks'. Known: writer",
    ]


@pytest.mark.parametrize(
    ("text", "select", "found"),
    [
        (
            "id: a\nextends: bsae\n",
            {},
            "w.yaml:2:10: there is no workflow 'bsae'. Did you mean 'base'?",
        ),
        (
            "id: a\nextends: base\nselect: {speed: slow}\n",
            {},
            "0.yaml:14:5: the variant 'speed' has no choice 'slow'. Known: careful, quick",
        ),
        (
            OVER.strip(),
            {"sped": "quick"},
            "w.yaml:3:9: there is no variant 'sped'. Did you mean 'speed'?",
        ),
        (
            "id: a\nsteps: []\nvariants: {x: {y: {sett: {}}}}\nselect: {x: y}\n",
            {},
            "w.yaml:3:20: unknown key 'sett'. Did you mean 'set'?",
        ),
    ],
)
def test_what_cannot_be_composed_is_told(text: str, select: dict[str, str], found: str) -> None:
    """A wrong name of a base, an axis or a choice, with the one that was probably meant."""
    assert faults(text, select=select) == [found]


def test_documents_that_extend_each_other_are_told() -> None:
    """A circle of documents has no beginning."""
    one, two = "id: one\nextends: two\n", "id: two\nextends: one\n"

    with pytest.raises(InvalidDocument, match="it extends itself: two → one → two"):
        composed(one, (), None, one, two)


def test_layer_is_for_one_workflow() -> None:
    """A layer that was named for another workflow by mistake changes nothing."""
    assert faults(BASE, LAYER) == [
        "layer.yaml:4:5: the layer is for the workflow 'over', not for 'base'"
    ]


def test_fault_in_a_layer_is_told_in_the_layer() -> None:
    """What the compiler finds points to the file and line of whoever said it."""
    documents = library(BASE, OVER)
    wrong = read_layer(
        "kind: layer\nid: wrong\nof: over\nset:\n  check.with.text: '{{ nowhere }}'\n",
        file="layer.yaml",
    )
    workflow = documents.workflow(read_document(OVER, file="w.yaml"), [wrong])

    with pytest.raises(InvalidDocument) as caught:
        compile_workflow(workflow, ALL)

    assert str(caught.value).startswith("layer.yaml:5:20: there is no 'nowhere' here.")


def test_fault_in_a_base_is_told_in_the_base() -> None:
    """Also when nodes were added before it."""
    wrong = BASE.replace(
        'use: text.upper, with: {text: "{{ split', 'use: text.uppr, with: {text: "{{ split'
    )
    documents = library(wrong, OVER)
    workflow = documents.workflow(read_document(OVER, file="w.yaml"))

    with pytest.raises(InvalidDocument, match=r"^0\.yaml:11:22: there is no tool 'text.uppr'"):
        compile_workflow(workflow, ALL)


def test_flat_document_is_the_same_workflow() -> None:
    """What is written out needs no layers any more, and composes to itself."""
    documents = library(BASE, OVER)
    layer = read_layer(LAYER, file="layer.yaml")
    laid = documents.composition(read_document(OVER, file="w.yaml"), [layer])

    flat = load_document(flat_text(laid), file="flat.yaml")
    direct = documents.workflow(read_document(OVER, file="w.yaml"), [layer])

    assert flat.document == direct.document


@pytest.mark.parametrize("seed", range(30))
def test_random_stacks_follow_the_strongest(seed: int) -> None:
    """Whatever is laid over whatever: each field has the value of the strongest about it."""
    dice = random.Random(seed)
    fields = ["split/writer.model", "split/writer.with.text", "check.about", ".about", ".version"]
    layers: list[Layer] = []
    wins: dict[str, Any] = {}
    for number in range(dice.randint(1, 6)):
        said = {field: f"{number}-{field}" for field in fields if dice.random() < 0.5}
        text = f"kind: layer\nid: l{number}\nof: base\nset: {said!r}"
        layers.append(read_layer(text.replace("'", '"'), file=f"{number}"))
        wins |= said
    found = library(BASE).composition(read_document(BASE, file="base"), layers)

    for field, value in wins.items():
        assert found.explain(field)[0].value == value
        holder: Any = found.value
        for name in (
            (["steps", 0, "steps", 0] if field.startswith("split") else ["steps", 1])
            if not field.startswith(".")
            else []
        ):
            holder = holder[name]
        for name in field.partition(".")[2].split("."):
            holder = holder[name]
        assert holder == value
