"""Our composer against OpenUSD's, on random stacks."""

import json
from typing import Any

import pytest

from pipecatapp.application.documents.service import fields_of
from pipecatapp.workflow import Documents, Layer, read_document, read_layer
from tests.unit.workflow.layers.stacks import FILE, Json, stack

TOLD = json.loads(FILE.read_text(encoding="utf-8"))


def node(path: str, fields: Json, inner: list[Json]) -> Json:
    """A node as it stands in a document."""
    found: Json = {"id": path.rpartition("/")[2]}
    found |= {"steps": inner} if inner else {"use": "text.upper"}
    for name, value in fields.items():
        head, _, rest = name.partition(".")
        if rest:
            found.setdefault(head, {})[rest] = value
        else:
            found[head] = value
    return found


def root(fields: Json) -> Json:
    """Fields of the document itself, as they stand in it."""
    return node("", {name.removeprefix("."): value for name, value in fields.items()}, [{}]) | {}


def composed(drawn: Json) -> dict[str, dict[str, Any]]:
    """The fields of every node that is left."""
    documents, layers = documents_of(drawn)
    return by_node(documents.composition(documents.written["over"], layers, {}).value)


def documents_of(drawn: Json) -> tuple[Documents, list[Layer]]:
    """The same stack in our documents, `over` the one that is composed, and its layers."""
    nodes = drawn["base"]["nodes"]
    steps = [
        node(path, fields, [node(p, f, []) for p, f in nodes.items() if p.startswith(f"{path}/")])
        for path, fields in nodes.items()
        if "/" not in path
    ]
    stated = {k: v for k, v in root(drawn["base"]["fields"]).items() if k not in ("id", "steps")}
    base = {"id": "base", **stated, "steps": steps}
    base["variants"] = {
        axis: {choice: {"set": said["set"]} for choice, said in choices.items()}
        for axis, choices in drawn["variants"].items()
    }
    own = {k: v for k, v in root(drawn["over"]["fields"]).items() if k not in ("id", "steps")}
    over = {"id": "over", "extends": "base", **own, "set": drawn["over"]["set"]}
    over["select"] = drawn["over"]["select"]
    layers = [layer(number, said) for number, said in enumerate(drawn["layers"])]
    documents = Documents()
    for one in (base, over):
        documents.add(read_document(json.dumps(one), file=f"{one['id']}.yaml"))
    return documents, [read_layer(json.dumps(one), file="layer.yaml") for one in layers]


def layer(number: int, said: Json) -> Json:
    """One layer as a document."""
    added = [
        {"in": path.rpartition("/")[0], "node": node(path, fields, [])}
        for path, fields in said["add"].items()
    ]
    told = {"kind": "layer", "id": f"l{number}", "of": "over"}
    return {**told, "add": added, "set": said["set"], "disable": said["disable"]}


def by_node(value: Any) -> dict[str, dict[str, Any]]:
    """The fields that OpenUSD was told of, too, by node."""
    found: dict[str, dict[str, Any]] = {"": {}}
    for path, said in fields_of(value):
        at, _, field = path.partition(".")
        if not at and field not in ("about", "limits.nodes"):
            continue
        found.setdefault(at, {})
        if field not in ("id", "use"):
            found[at][field] = said
    return found


@pytest.mark.parametrize("seed", range(0, 100, 10))
def test_composer_agrees_with_openusd(seed: int) -> None:
    """Strength is not a matter of our taste: who knows one of the two knows the other."""
    for number in range(seed, seed + 10):
        assert composed(stack(number)) == TOLD["composed"][str(number)], f"stack {number}"


def test_oracle_is_named_with_its_version() -> None:
    """What was recorded says by whom."""
    assert TOLD["usd-core"] == "26.11"
