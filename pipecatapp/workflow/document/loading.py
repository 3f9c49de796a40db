"""From text to a workflow document, with every fault of its form in one go."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pipecatapp.workflow.document.diagnostic import Diagnostic, InvalidDocument, did_you_mean
from pipecatapp.workflow.document.model import (
    RESERVED,
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
    WorkspacePart,
)
from pipecatapp.workflow.document.shapes import shape
from pipecatapp.workflow.document.yaml_text import Path, Source
from pipecatapp.workflow.tool import Json


@dataclass(frozen=True)
class Prompt:
    """A system text for nodes that request all of its tags."""

    id: str
    tags: frozenset[str]
    text: str


@dataclass(frozen=True)
class Project:
    """A project for its workflows: `values` by name, and the models bound to its model roles."""

    id: str
    values: Json
    roles: Mapping[str, Any]


@dataclass(frozen=True)
class Workflow:
    """A document in the form of a workflow; `compile_workflow` checks whether it can run."""

    document: WorkflowDocument
    source: Source

    @property
    def id(self) -> str:
        return self.document.id

    @property
    def version(self) -> int:
        return self.document.version

    @property
    def about(self) -> str:
        return self.document.about

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.document.tags)

    def input_schema(self) -> Json:
        """JSON Schema of its inputs."""
        inputs = self.document.inputs
        return _object(
            {name: _described(given.type, given.about, given) for name, given in inputs.items()},
            [name for name, given in inputs.items() if given.required],
        )

    def output_schema(self) -> Json:
        """JSON Schema of its outputs."""
        outputs = self.document.outputs
        return _object(
            {name: _described(out.type, out.about) for name, out in outputs.items()}, list(outputs)
        )


def checked_document(value: Any, source: Source) -> Workflow:
    """The workflow of a value that was read; raises `InvalidDocument`."""
    if not isinstance(value, dict):
        raise InvalidDocument(
            [source.diagnostic((), "a workflow is an object with `id` and `steps` or `graph`")]
        )
    faults = [
        source.diagnostic(path, message, mend, key=key) for path, message, mend, key in _form(value)
    ]
    try:
        document = WorkflowDocument.model_validate(value)
    except ValidationError as error:
        faults += [_explained(fault, value, source) for fault in error.errors(include_url=False)]
        raise InvalidDocument(faults) from error
    if faults:
        raise InvalidDocument(faults)
    return Workflow(document, source)


Fault = tuple[Path, str, str, bool]


def _form(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Check rules that the models cannot express: which keys go together, and unique names."""
    yield from _choice((), document, ("steps", "graph"))
    for name in _mapping(document.get("inputs")):
        if name in RESERVED:
            yield (
                ("inputs", name),
                f"{name!r} is a reserved name",
                "Choose another name",
                True,
            )
    yield from _scope((), document, {})


def _scope(at: Path, holder: Mapping[str, Any], outer: Mapping[str, Path]) -> Iterator[Fault]:
    seen = dict(outer)
    for path, node in _nodes(at, holder):
        yield from _choice(path, node, ("use", "steps", "graph", "goto"))
        name = node.get("id")
        if isinstance(name, str) and name in RESERVED:
            yield (*path, "id"), f"{name!r} is a reserved name", "Choose another id", False
        elif isinstance(name, str) and name in seen:
            yield (*path, "id"), f"the id {name!r} is taken", "Choose another id", False
        elif isinstance(name, str):
            seen[name] = path
        if node.get("else") and "if" not in node:
            yield (*path, "else"), "`else` needs an `if`", "", True
        yield from _misplaced(path, node)
    for path, node in _nodes(at, holder):
        yield from _scope(path, node, seen)


_OF_TOOLS = ("with", "model", "prompt", "returns", "cache", "pinned")
_OF_LOOPS = ("for", "while", "until", "stuck_on")
_OF_WHAT_RUNS = (*_OF_TOOLS, *_OF_LOOPS, "check", "timeout", "retry", "on_error", "stream")


def _misplaced(path: Path, node: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield modifiers at positions where they have no effect."""
    if "goto" in node:
        yield from _refused(path, node, _OF_WHAT_RUNS, "`{}` does not belong to a `goto`", "")
    elif "use" not in node:
        said = "`{}` belongs to a node that uses a tool"
        yield from _refused(path, node, _OF_TOOLS, said, "Move it to a node inside")
    loops = [key for key in ("for", "while", "until") if key in node]
    for key in loops[1:]:
        yield (*path, key), f"`{key}` cannot be combined with `{loops[0]}`", "Nest two nodes", True
    counted = {"while", "until"} & node.keys()
    if counted and "max" not in node:
        yield (*path, min(counted)), "a loop needs a `max`", "Add `max: …`", True
    if not counted:
        yield from _uncounted(path, node)
    yield from _item_name(path, node)
    yield from _pin(path, node, loops)


def _uncounted(path: Path, node: Mapping[str, Any]) -> Iterator[Fault]:
    yield from _refused(path, node, ("stuck_on",), "`{}` needs a `while` or an `until`", "")
    if "goto" not in node:
        said = "`{}` needs a `while`, an `until` or a `goto`"
        yield from _refused(path, node, ("max", "on_max"), said, "")


def _pin(path: Path, node: Mapping[str, Any], loops: list[str]) -> Iterator[Fault]:
    if node.get("cache") == "pin" and "pinned" not in node:
        yield (*path, "cache"), "`cache: pin` needs a `pinned` output", "Add `pinned: …`", True
    if node.get("cache") == "pin" and loops:
        yield (*path, "cache"), "a loop cannot be pinned", "Pin a node inside it", True


def _item_name(path: Path, node: Mapping[str, Any]) -> Iterator[Fault]:
    loop = node.get("for")
    name = loop.get("as", "item") if isinstance(loop, dict) else None
    if isinstance(name, str) and name in RESERVED:
        yield (*path, "for", "as"), f"{name!r} is a reserved name", "Choose another", False


def _refused(
    path: Path, node: Mapping[str, Any], keys: tuple[str, ...], said: str, mend: str
) -> Iterator[Fault]:
    for key in keys:
        if key in node:
            yield (*path, key), said.format(key), mend or "Remove it", True


def _nodes(at: Path, holder: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the nodes of one scope; nodes of `else` lists follow the node that they belong to."""
    for key in ("steps", "graph"):
        for index, node in enumerate(_list(holder.get(key))):
            yield from _with_else((*at, key, index), node)


def _with_else(path: Path, node: Any) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    if isinstance(node, dict):
        yield path, node
        for index, inner in enumerate(_list(node.get("else"))):
            yield from _with_else((*path, "else", index), inner)


def _choice(path: Path, holder: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[Fault]:
    given = [key for key in keys if key in holder]
    choice = ", ".join(f"`{key}`" for key in keys)
    if not given:
        yield path, f"exactly one of {choice} is required here", "", False
    for key in given[1:]:
        yield (
            (*path, key),
            f"exactly one of {choice} is allowed here",
            f"Remove `{key}` or `{given[0]}`",
            True,
        )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


_MODELS: Mapping[str, type[Part]] = {
    "inputs": Input,
    "outputs": Output,
    "defaults": Defaults,
    "limits": LimitsPart,
    "schedule": Schedule,
    "workspace": WorkspacePart,
}


_IN_NODE: Mapping[str, type[Part]] = {
    "for": ForEach,
    "model": ModelPart,
    "retry": Retry,
    "on_error": OnError,
}


def _explained(fault: ErrorDetails, value: Any, source: Source) -> Diagnostic:
    """A fault that pydantic found, in words for the author of the document."""
    path = tuple(part for part in fault["loc"] if part != "[key]")
    name = str(path[-1]) if path else ""
    if fault["type"] == "extra_forbidden":
        mend = did_you_mean(name, _keys_at(path[:-1]))
        return source.diagnostic(path, f"unknown key {name!r}", mend, key=True)
    if fault["type"] == "missing":
        return source.diagnostic(path[:-1], f"`{name}` is missing", f"Add `{name}: …`")
    if fault["type"] == "value_error":
        return source.diagnostic(path, str(fault.get("ctx", {}).get("error", fault["msg"])))
    return source.diagnostic(path, f"`{name}`: {fault['msg']}")


def _keys_at(path: Path) -> list[str]:
    model = next((_MODELS[str(part)] for part in path[:1] if part in _MODELS), WorkflowDocument)
    if any(part in ("steps", "graph", "else") for part in path):
        model = _IN_NODE.get(str(path[-1]), Node)
    return [field.alias or name for name, field in model.model_fields.items()]


def _described(shorthand: Any, about: str, given: Input | None = None) -> Json:
    schema = shape(shorthand).schema()
    if about:
        schema = {**schema, "description": about}
    if given is not None and not given.required:
        schema = {**schema, "default": given.default}
    return schema


def _object(properties: dict[str, Json], required: list[str]) -> Json:
    definitions: Json = {}
    for schema in properties.values():
        definitions.update(schema.pop("$defs", {}))
    whole: Json = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {**whole, "$defs": definitions} if definitions else whole
