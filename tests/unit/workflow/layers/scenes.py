"""Workflows as scenes of OpenUSD, for the oracle to compose; `test_usda.py` says what of.

python -m tests.unit.workflow.layers.scenes FOLDER
uv run --no-project --with usd-core python -m tests.unit.workflow.layers.scene_oracle FOLDER
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipecatapp.application.documents.usda import usda_text
from pipecatapp.workflow import Documents, Layer, read_document, read_layer
from tests.unit.workflow.layers.stacks import Json, stack
from tests.unit.workflow.layers.test_oracle import documents_of

STACKS = 40
BASE = """
id: base
about: "One line,\\ntwo \\"quotes\\", a \\\\ and ünï\\tcode."
tags: [one, two]
inputs: {zone: text, count: {type: integer, default: 3}}
limits: {nodes: 7, cost: 0.5}
graph:
  - {id: look, use: time.now, with: {zone: "{{ inputs.zone }}"}, cache: never}
  - id: choose
    use: value
    if: "{{ inputs.count > 1 }}"
    with: {value: {"a b": 1, "2nd": [1, two, null], deep: {er: true}}}
    else: [{id: other, use: value, with: {value: null}}]
  - id: split
    steps:
      - {id: first_one, use: value, with: {value: []}, tags: [x]}
      - {id: writer, use: llm, with: {text: Write., max_tokens: 5}, needs: [look]}
variants:
  speed:
    low: {set: {split/writer.with: {text: Slowly.}}, append: {.tags: [slow]}}
    high: {disable: [split/first_one], add: [{node: {id: quick, use: value, with: {value: 1}}}]}
set: {.limits.depth: 3}
"""
OVER = """
id: over
extends: base
select: {speed: high}
inputs: {topic: text}
outputs: {text: "{{ split.writer.text }}"}
append: {.tags: [three]}
add: [{in: split, after: writer, node: {id: last_one, use: value, with: {value: 2.5}}}]
"""
ANEW = """
id: over
extends: base
steps:
  - {id: split, use: value, with: {value: 1}}
  - {id: end, use: value, with: {value: "{{ split.value }}"}}
"""
LAYERS = (
    """
kind: layer
id: bold-one
of: over
set: {split/writer.with.text: "Boldly.", choose.with.value: plain, .about: other}
disable: [quick]
""",
    """
kind: layer
id: again
of: over
add: [{after: look, node: {id: quick, use: text.upper, with: {text: up}}}]
disable: [choose]
""",
)
ON_ANEW = (
    "kind: layer\nid: top\nof: over\nset: {split.with: {}}\nadd: [{node: {id: choose, use: x}}]\n"
)


def scenes() -> Iterator[tuple[str, Documents, list[Layer], dict[str, str]]]:
    """Workflows called `over` by a name, with the layers over each and what is selected of it."""
    for seed in range(STACKS):
        yield (str(seed), *documents_of(stack(seed)), {})
    laid = [read_layer(text, file="layer.yaml") for text in LAYERS]
    yield "all", _documents(OVER), laid, {}
    yield "selected", _documents(OVER), [], {"speed": "low"}
    yield "bare", _documents(OVER), laid[:1], {}
    yield "anew", _documents(ANEW), [read_layer(ON_ANEW, file="layer.yaml")], {"speed": "low"}


def scene(documents: Documents, layers: list[Layer], select: dict[str, str]) -> str:
    """The text of one."""
    over = documents.written["over"]
    return usda_text(over, documents.written, layers=layers, select=select)


def flat(value: Any) -> Json:
    """A composed workflow as a scene shows it: fields of nodes by path, and the order of nodes."""
    found: Json = {}
    _told("", value, "", found)
    return found


def _told(path: str, node: Any, after: str, found: Json) -> None:
    kept = ("id", "steps", "graph", "else") if path else ("steps", "graph")
    fields: Json = {}
    for key, said in node.items():
        if key not in kept:
            _leaves(key, said, fields)
    if order := next((key for key in ("steps", "graph") if key in node), ""):
        fields["order"] = order
    fields |= {"else_of": after} if after else {}
    found[path] = {"fields": fields, "inside": []}
    for key in ("steps", "graph"):
        for inner in node.get(key) or ():
            _listed(path, inner, "", found)


def _listed(scope: str, node: Any, after: str, found: Json) -> None:
    found[scope]["inside"].append(node["id"])
    _told(f"{scope}/{node['id']}".lstrip("/"), node, after, found)
    for other in node.get("else") or ():
        _listed(scope, other, node["id"], found)


def _leaves(at: str, value: Any, found: Json) -> None:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            _leaves(f"{at}:{key}", inner, found)
    else:
        found[at] = value


def _documents(text: str) -> Documents:
    documents = Documents()
    for one in (BASE, text):
        documents.add(read_document(one, file="test.yaml"))
    return documents


def main(folder: Path) -> None:
    for name, documents, layers, select in scenes():
        text = scene(documents, layers, select)
        (folder / f"{name}.usda").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
