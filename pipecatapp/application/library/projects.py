"""Projects: what workflows should know of the work they are part of."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipecatapp.workflow import Diagnostic, InvalidDocument, Project
from pipecatapp.workflow.syntax import ModelPart, read_yaml

Reference = Annotated[
    str,
    Field(
        pattern=r"^(kept:[a-z][a-z0-9_-]*|env:[A-Z][A-Z0-9_]*|file:/.+)$",
        description="Reference to a key: `kept:name`, `env:NAME` or `file:/path`.",
    ),
]


class Commands(BaseModel):
    """The shell commands of a project; a node can pass one to `code.run`."""

    model_config = ConfigDict(extra="forbid")

    install: str = Field("", description="Installs its dependencies.")
    build: str = Field("", description="Builds it.")
    run: str = Field("", description="Starts it.")
    test: str = Field("", description="Tests it.")
    deploy: str = Field("", description="Deploys it.")


class Assets(BaseModel):
    """The paths of its files, relative to its root."""

    model_config = ConfigDict(extra="forbid")

    source: list[str] = Field([], description="Code.")
    config: list[str] = Field([], description="Settings.")
    art: list[str] = Field([], description="Images, sounds, 3D models.")


class ProjectDocument(BaseModel):
    """A project. Workflows with `project: <id>` read its fields as `project.…`."""

    model_config = ConfigDict(extra="forbid", validate_default=True)

    kind: Literal["project"] = Field(description="`project`.")
    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$", description="Its name.")
    vision: str = Field("", description="The goal of the project, and its users.")
    specifications: list[str] = Field([], description="Required behaviour.")
    languages: list[str] = Field([], description="Programming languages.")
    interfaces: list[str] = Field(
        [], description="Environments, engines and libraries that it uses, as free text."
    )
    platform: str = Field("", description="The platform on which it runs.")
    repository: str = Field("", description="The git repository: a path or an address.")
    commands: Commands = Field(Commands.model_validate({}), description="Its shell commands.")
    assets: Assets = Field(Assets.model_validate({}), description="The paths of its files.")
    style: str = Field("", description="Style guide and best practices.")
    context: list[str] = Field([], description="Files that a model should read first.")
    models: dict[str, ModelPart] = Field(
        {}, description="Model role -> model of this project, which overrides the cluster's."
    )
    secrets: dict[str, Reference] = Field(
        {}, description="References to keys of other services by name, never the keys."
    )


def load_project(text: str, *, file: str) -> Project:
    """Raises `InvalidDocument` with every fault."""
    value, source = read_yaml(text, file=file)
    if not isinstance(value, dict):
        raise InvalidDocument([source.diagnostic((), "a project is an object with an `id`")])
    try:
        document = ProjectDocument.model_validate(value)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise InvalidDocument([_told(source, fault) for fault in faults]) from error
    values = document.model_dump(exclude={"kind", "models"})
    roles = {name: choice.model_dump() for name, choice in document.models.items()}
    return Project(document.id, values, roles)


def _told(source: Any, fault: Any) -> Diagnostic:
    path = tuple(fault["loc"])
    name = ".".join(map(str, path))
    if fault["type"] == "extra_forbidden":
        told: Diagnostic = source.diagnostic(path, f"unknown key {name!r}", key=True)
    elif path[:1] == ("secrets",):
        mend = "Write `kept:name`, `env:NAME` or `file:/path`; a document must not contain the key"
        told = source.diagnostic(path, f"{name!r} is not a reference", mend)
    else:
        told = source.diagnostic(path, f"{name}: {fault['msg']}")
    return told


def project_files(root: Path) -> list[Path]:
    """The documents of projects below a state directory."""
    return sorted((root / "projects").glob("[!.]*.yaml"))
