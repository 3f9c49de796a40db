"""Plans: a base workflow, its layers, and the resulting steps."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, Field

from pipecatapp.workflow import (
    Context,
    Documents,
    InvalidDocument,
    Layer,
    ToolFailed,
    flat_text,
    read_layer,
)
from pipecatapp.workflow.syntax import RESERVED

Json = dict[str, Any]

LONGEST_GOAL: Final = 2000
"""Characters of a goal or a note; the rest of a longer one is left out."""
CONTEXTS: Final = "contexts"
"""The scope of a plan that reads contexts for its steps, before them; no step has this id."""
_NOT_IN_ID: Final = re.compile(r"[^a-z0-9]+")
_OPENING: Final = re.compile(r"\{(?=[{%#])")


class PlanStep(BaseModel):
    """A step of a plan that calls a tool or a workflow."""

    id: str = Field(description="Its path in the plan, such as `storage/schema`.")
    goal: str
    files: list[str]


class Plan(BaseModel):
    """A plan that can run, or what is wrong with it."""

    problems: list[str] = Field(description="Errors, for the next request; empty if valid.")
    base: str = Field(description="The workflow that the layers change.")
    layer: str = Field(description="The new layer, as YAML; empty if there are problems.")
    layers: list[str] = Field(description="All layers, the strongest last.")
    document: str = Field(description="The workflow that comes of them, for `plan.run`.")
    steps: list[PlanStep] = Field(description="Id, goal and files of its steps, in their order.")


def composed(ctx: Context, base: str, layers: Sequence[str], layer: Json | None) -> Plan:
    """Return the plan composed of a base, layers, and one further layer.

    `problems` lists the errors of that layer. Raises `ToolFailed` for an unknown base.
    """
    documents = _documents_with(ctx, base)
    head = {"kind": "layer", "id": f"plan-{len(layers) + 1}", "of": base}
    # JSON is YAML, and nothing in it can be mistaken for an anchor, a tag or a number.
    text = json.dumps({**head, **layer}, indent=2, ensure_ascii=False) + "\n" if layer else ""
    every = [*layers, *([text] if text else [])]
    try:
        read = _read(every)
        composition = documents.composition(documents.written[base], read)
        documents.workflow(documents.written[base], read)
    except InvalidDocument as error:
        told = [one.message for one in error.diagnostics]
        return Plan(problems=told, base=base, layer="", layers=list(layers), document="", steps=[])
    return Plan(
        problems=[],
        base=base,
        layer=text,
        layers=every,
        document=flat_text(composition),
        steps=list(steps_of(composition.value)),
    )


def composed_value(ctx: Context, base: str, layers: Sequence[str]) -> Json:
    """The document that comes of a base and layers which are valid; raises as `composed` does."""
    documents = _documents_with(ctx, base)
    return documents.composition(documents.written[base], _read(layers)).value


def _documents_with(ctx: Context, base: str) -> Documents:
    documents = ctx.service(Documents)
    if base not in documents.written:
        raise ToolFailed(f"There is no workflow {base!r}.")
    return documents


def _read(layers: Sequence[str]) -> list[Layer]:
    return [read_layer(one, file=f"layer {number}") for number, one in enumerate(layers, 1)]


def steps_of(value: Mapping[str, Any]) -> Iterator[PlanStep]:
    """The steps of a composed plan that call something, in their order, without its contexts."""
    for path, node in calls_of(value):
        given = node.get("with") or {}
        goal = plain(str(given.get("goal") or node.get("about") or ""))
        files = [plain(str(one)) for one in given.get("files") or []]
        yield PlanStep(id=path, goal=goal, files=files)


def calls_of(value: Mapping[str, Any], outer: str = "") -> Iterator[tuple[str, Json]]:
    """The nodes of these steps, by path."""
    for node in value.get("steps") or []:
        path = f"{outer}/{node['id']}" if outer else str(node["id"])
        if path == CONTEXTS:
            continue
        if "steps" in node:
            yield from calls_of(node, path)
        else:
            yield path, node


def literal(text: str, longest: int = LONGEST_GOAL) -> str:
    """A text as a document writes it: nothing in it is an expression."""
    return _OPENING.sub("{{ '{' }}", text.strip()[:longest])


def plain(text: str) -> str:
    """Return the text that was passed to `literal`."""
    return text.replace("{{ '{' }}", "{")


def node_id(wanted: str, taken: Iterable[str]) -> str:
    """An id for a node, from words of a model; distinct from those that are taken."""
    name = _NOT_IN_ID.sub("_", wanted.lower()).strip("_")[:40].strip("_")
    if not name or not name[0].isalpha() or name in {*RESERVED, CONTEXTS}:
        name = f"step_{name}".rstrip("_")
    known, number, found = set(taken), 1, name
    while found in known:
        number += 1
        found = f"{name}_{number}"
    return found
