"""The reference page of workflow documents, written from the models that read them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pipecatapp.workflow.document.model import (
    Defaults,
    ForEach,
    Input,
    LimitsPart,
    ModelPart,
    Node,
    OnError,
    Output,
    Part,
    Retry,
    Schedule,
    WorkflowDocument,
)
from pipecatapp.workflow.document.shapes import SHORTHAND
from pipecatapp.workflow.expressions.filters import FILTERS, OPERATORS, TESTS
from pipecatapp.workflow.layers.written import Add, LayerDocument, Opinions

_HEAD = """# Workflow documents

Written by `make docs` from the code; do not edit.

YAML 1.2. A document defines the inputs of a workflow, the tools that it uses, and its outputs.
Keys that are not listed here are refused, with file, line and column. How to write one: [Write a
workflow](../howto/write-a-workflow.md).
"""
_TITLES: dict[str, type[Part]] = {
    "Head": WorkflowDocument,
    "Node": Node,
    "`for`": ForEach,
    "`model`": ModelPart,
    "`retry`": Retry,
    "`on_error`": OnError,
    "Input": Input,
    "Output": Output,
    "`defaults`": Defaults,
    "`limits`": LimitsPart,
    "`schedule`": Schedule,
}
_LAYERS = """## Layers, variants, extending

With `extends: <id>`, a document starts from that workflow; its own keys replace those of the
workflow (`inputs`, `outputs`, `defaults` and `limits` key by key), and it can contain the
overrides below. `variants:` contains overrides by axis and choice; `select: {axis: choice}`
selects one, as can the caller that starts the run. A layer is a separate document. In descending
order of precedence: layers, the last one first; the overrides of the document; its variants; its
fields; the workflow that it extends. To change a single run, use a layer as well: a file for
`--layer`, or its text in `layers` of the API. An override of a node that does not exist is an
error.
"""
_EXPRESSIONS = """## Expressions

A text that is exactly one `{{ … }}` is replaced by the value, of any type; in any other text the
value is inserted. The expressions of a node are evaluated once, when it starts; their results are
not evaluated again.

Names: `inputs`, `run.id`, `run.request`, and the ids of nodes, for their outputs: `{{ reply.text
}}`. `{{ a.b }}` only looks up an item. `first(a.x, b.x)` is the first of them that ran; `{{ a.x |
default('none') }}` is `none` if the node did not run. In a loop, and in steps to which a `goto`
leads back, there are `loop.index` (from 0), `loop.first`, `loop.parent` (the enclosing loop) and
`prev`: the outputs of the previous visit, null in the first one. `as` is the name of the item of
a `for`. The outputs of a loop are `all` (the outputs of its visits), `last` and `count`.

The operators are `+ - * / // %`, comparisons, `in`, `and`, `or`, `not`, `~` and `x if y else z`.
"""


def documents_page() -> str:
    """The Markdown of `docs/reference/workflow-documents.md`."""
    lines = [_HEAD]
    for title, model in _TITLES.items():
        lines += [f"## {title}", "", model.__doc__ or "", "", *_table(model), ""]
    lines += [_LAYERS, "### Overrides", "", Opinions.__doc__ or "", "", *_table(Opinions), ""]
    lines += ["### `add`", "", Add.__doc__ or "", "", *_table(Add), ""]
    only = {name: field for name, field in LayerDocument.model_fields.items() if name in _OF_LAYER}
    lines += ["### Layer", "", "The keys of overrides, and:", "", *_rows(only), ""]
    lines += ["## Types", "", "| type | value |", "| --- | --- |"]
    lines += [f"| `{word}` | {what} |" for word, what in SHORTHAND.items()]
    tests = [name for name in TESTS if name not in OPERATORS]
    lines += ["", _EXPRESSIONS]
    lines += [f"Filters: {_names(FILTERS)}.", "", f"Tests, for `is` and `select`: {_names(tests)}."]
    return "\n".join([*lines, ""])


_OF_LAYER = ("kind", "id", "of", "about")


def _table(model: type[BaseModel]) -> Iterator[str]:
    yield from _rows(model.model_fields)


def _rows(fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    yield "| key | value | default | description |"
    yield "| --- | --- | --- | --- |"
    for name, field in fields.items():
        default = "required" if field.is_required() else _default(field)
        key = field.alias or name
        yield f"| `{key}` | {_kind(name, field.annotation)} | {default} | {field.description} |"


def _default(field: FieldInfo) -> str:
    value = field.default
    shown = value is not None and value not in ([], {}, "") and field.default_factory is None
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if shown else ""


def _choices(annotation: Any) -> list[str]:
    """Return the values of a `Literal`, also of one that may be None."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    return [str(value) for part in parts for value in (get_args(part) or (part,))]


def _kind(name: str, annotation: Any) -> str:
    """Return a description of the values of a key."""
    text = re.sub(r"\w+\.|typing\.", "", str(annotation))
    known = {
        "WorkflowDocument": "object",
        "ModelPart": "role, id, list or object",
        "ForEach": "expression, list or object",
        "Retry": "number or object",
        "OnError": "word or object",
        "Node": "nodes",
        "Input": "inputs by name",
        "Output": "outputs by name",
        "Defaults": "object",
        "LimitsPart": "object",
        "Schedule": "cron line or object",
        "float": "duration",
        "list[str]": "texts",
        "dict[str": "object",
        "bool": "true or false",
        "int": "number",
        "str": "text",
        "Literal": f"`{', '.join(_choices(annotation))}`",
    }
    if name in ("cost", "max_cost"):
        return "number"
    if name == "needs" and "Literal" in text:
        return f"texts: `{', '.join(get_args(get_args(annotation)[0]))}`"
    if name in ("type", "returns"):
        return "type"
    if name in ("allow", "check"):
        return {"allow": "effects", "check": "expression, list or object"}[name]
    if "bool" in text and "str" in text:
        return "expression"
    return next((v for k, v in known.items() if k in text), "any")


def _names(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)
