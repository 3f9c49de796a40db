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

YAML 1.2. A document says what a workflow takes, which tools it uses, and what it gives. What is not
listed here is refused, with file, line and column. How to write one:
[Write a workflow](../howto/write-a-workflow.md).
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

A document may say `extends: <id>`: it begins as that workflow, its own keys stand over it
(`inputs`, `outputs`, `defaults` and `limits` key by key), and it may hold the opinions below.
`variants:` holds opinions by axis and choice; `select: {axis: choice}` chooses, and so does who
starts the run. A layer is a document of its own. The strongest first: layers, the last one named
first; the opinions of the document; its variants; what it states; what it extends. What only one
run is to have is a layer, too: a file for `--layer`, or its text among the `layers` of the API. An
opinion about a node that is not there is a fault.
"""
_EXPRESSIONS = """## Expressions

A text that is exactly one `{{ … }}` is replaced by the value, whatever its type; in any other text
the value is written into it. A node's expressions are evaluated once, when it starts; what comes
out is never evaluated again.

Names: `inputs`, `run.id`, `run.request`, and the ids of nodes, whose outputs stand under them:
`{{ reply.text }}`. `{{ a.b }}` looks up an item, never anything else. `first(a.x, b.x)` is the
first of them that ran; `{{ a.x | default('none') }}` says what stands in for a node that did not.
In a loop, and in steps that a `goto` leads back to, there are `loop.index` (from 0), `loop.first`,
`loop.parent` (the loop around it) and `prev`: what the visit before gave, all of it null in the
first. A `for` has its item under the name that `as` gives. What a loop gives: `all`, the outputs of
its visits; `last`; and `count`.

There are `+ - * / // %`, comparisons, `in`, `and`, `or`, `not`, `~` and `x if y else z`.
"""


def documents_page() -> str:
    """The Markdown of `docs/reference/workflow-documents.md`."""
    lines = [_HEAD]
    for title, model in _TITLES.items():
        lines += [f"## {title}", "", model.__doc__ or "", "", *_table(model), ""]
    lines += [_LAYERS, "### Opinions", "", Opinions.__doc__ or "", "", *_table(Opinions), ""]
    lines += ["### `add`", "", Add.__doc__ or "", "", *_table(Add), ""]
    only = {name: field for name, field in LayerDocument.model_fields.items() if name in _OF_LAYER}
    lines += ["### Layer", "", "Opinions, and:", "", *_rows(only), ""]
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
    yield "| key | value | default | what |"
    yield "| --- | --- | --- | --- |"
    for name, field in fields.items():
        default = "required" if field.is_required() else _default(field)
        key = field.alias or name
        yield f"| `{key}` | {_kind(name, field.annotation)} | {default} | {field.description} |"


def _default(field: FieldInfo) -> str:
    value = field.default
    shown = value is not None and value not in ([], {}, "") and field.default_factory is None
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if shown else ""


def _kind(name: str, annotation: Any) -> str:
    """What a person writes there."""
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
        "Literal": f"`{', '.join(map(str, get_args(annotation)))}`",
    }
    if name in ("cost", "max_cost"):
        return "number"
    if name == "needs" and "Literal" in text:
        return f"texts: `{', '.join(get_args(get_args(annotation)[0]))}`"
    if name in ("type", "returns"):
        return "type"
    if name in ("allow", "check"):
        return {"allow": "effects", "check": "expressions, by their reason or not"}[name]
    if "bool" in text and "str" in text:
        return "expression"
    return next((v for k, v in known.items() if k in text), "any")


def _names(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)
