"""Documents as they were written, before anything is composed: workflows and layers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipecatapp.workflow.document.diagnostic import Diagnostic, InvalidDocument, did_you_mean
from pipecatapp.workflow.document.yaml_text import Source, read_yaml

OPINIONS = ("set", "append", "add", "disable")
"""Keys of opinions: of a layer, of a variant, and of a document that extends another."""


class Add(BaseModel):
    """A node to be added: `in` a scope (the workflow itself when empty), `after` a sibling (as the
    first node when empty).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    scope: str = Field("", alias="in", description="The scope; empty for the workflow itself.")
    after: str | None = Field(
        None,
        description="The sibling to insert it after; empty: before all. Default: the last one.",
    )
    node: dict[str, Any] = Field(description="The node.")


class Opinions(BaseModel):
    """Overrides for another document. A path names a field of a node,
    `split/writer.with.task`, or a field of the workflow, `.limits.nodes`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    add: list[Add] = Field([], description="Nodes to add.")
    set: dict[str, Any] = Field({}, description="Fields and their values, by path.")
    append: dict[str, list[Any]] = Field({}, description="Items to add to lists, by path.")
    disable: list[str] = Field([], description="Nodes to leave out, by path.")


class LayerDocument(Opinions):
    """A layer: overrides for one workflow."""

    kind: Literal["layer"] = Field(description="Kind of the document.")
    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")] = Field(description="Its name.")
    of: str = Field(description="The workflow to which it is applied.")
    about: str = Field("", description="Description.")


@dataclass(frozen=True)
class Written:
    """A workflow as parsed from its file, with the positions of its parts."""

    value: Mapping[str, Any]
    source: Source


@dataclass(frozen=True)
class Layer:
    """A layer, ready to be laid over its workflow."""

    document: LayerDocument
    source: Source

    @property
    def id(self) -> str:
        return self.document.id


def read_layer(text: str, *, file: str) -> Layer:
    """Read a layer; raises `InvalidDocument`."""
    value, source = read_yaml(text, file=file)
    if not isinstance(value, dict) or value.get("kind") != "layer":
        raise InvalidDocument(
            [source.diagnostic((), "a layer begins with `kind: layer`", "Add `kind: layer`")]
        )
    try:
        return Layer(LayerDocument.model_validate(value), source)
    except ValidationError as error:
        raise InvalidDocument(faults_of(error, source, (), LayerDocument)) from error


def opinions_of(value: Any, source: Source, at: tuple[str, ...]) -> Opinions:
    """Parse the overrides at a position; raises `InvalidDocument`."""
    try:
        return Opinions.model_validate(value)
    except ValidationError as error:
        raise InvalidDocument(faults_of(error, source, at, Opinions)) from error


def faults_of(
    error: ValidationError, source: Source, at: tuple[str, ...], model: type[BaseModel]
) -> list[Diagnostic]:
    """Convert pydantic's errors to diagnostics with a position and a message for the author."""
    faults = []
    for fault in error.errors(include_url=False):
        path = (*at, *fault["loc"])
        name = str(path[-1]) if path else ""
        if fault["type"] == "extra_forbidden":
            mend = did_you_mean(name, model.model_fields)
            faults.append(source.diagnostic(path, f"unknown key {name!r}", mend, key=True))
        elif fault["type"] == "missing":
            faults.append(source.diagnostic(path[:-1], f"`{name}` is missing", f"Add `{name}: …`"))
        else:
            faults.append(source.diagnostic(path, f"`{name}`: {fault['msg']}"))
    return faults
