"""`hearth workflows`: list, show and edit workflows."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from pipecatapp.cli.documents.output import json_out, table_out
from pipecatapp.cli.exit_codes import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.options import (
    ANY_VERSION,
    DryRunOption,
    Json,
    JsonOption,
    LayersOption,
    Named,
    OldDryRunOption,
    SelectOption,
    StateOption,
    WorkflowArgument,
    text_of,
)
from pipecatapp.client import connect, segment

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A workflow's id.")]


def list_workflows(
    context: typer.Context,
    tag: Annotated[list[str], typer.Option(help="Only workflows with this tag. Repeatable.")] = [],  # noqa: B006
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List workflows. --json adds the schemas of inputs and outputs."""
    if context.invoked_subcommand is None:
        finish(_list(tag, state_dir, as_json=as_json))


def show_workflow(
    name: NameArgument, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """Print the document of a workflow. --json adds its schemas and its graph."""
    finish(_show(name, state_dir, as_json=as_json))


def edit_workflow(
    name: NameArgument,
    given: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="PATH=VALUE", help="Set `node.field` to a value. Repeatable."
        ),
    ] = [],  # noqa: B006
    remove: Annotated[
        list[str], typer.Option(metavar="PATH", help="Remove a node or `node.field`. Repeatable.")
    ] = [],  # noqa: B006
    rename: Annotated[
        list[str],
        typer.Option(metavar="PATH=ID", help="Rename a node and all references to it. Repeatable."),
    ] = [],  # noqa: B006
    operations: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File with edit operations as JSON, as in the API."),
    ] = None,
    state_dir: StateOption = None,
    *,
    dry_run: DryRunOption = False,
    look: OldDryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Edit a workflow. Lines and comments outside the edit do not change.

    A workflow that comes with Hearth is not changed: an edited copy is saved in the state
    directory.
    """
    asked = _Asked(given, remove, rename, operations)
    finish(_edit(name, asked, state_dir, dry_run=dry_run or look, as_json=as_json))


def compare_workflows(
    before: WorkflowArgument,
    after: WorkflowArgument,
    layers: LayersOption = [],  # noqa: B006
    select: SelectOption = [],  # noqa: B006
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Compare two workflows. --layer and --select apply to the second one."""
    finish(_diff(Named(before), Named(after, layers, select), state_dir, as_json=as_json))


def save_workflow(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The workflow as YAML.")],
    state_dir: StateOption = None,
) -> None:
    """Save a workflow under its id. An existing one is replaced."""
    finish(_save(file, state_dir))


def remove_workflow(name: NameArgument, state_dir: StateOption = None) -> None:
    """Remove a saved workflow. A workflow of that id that comes with Hearth is then used again."""
    finish(_remove(name, state_dir))


async def _list(tags: Sequence[str], state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = (await client.request("GET", "/api/workflows"))["workflows"]
    found = [one for one in found if set(tags) <= set(one["tags"])]
    if as_json:
        return json_out({"workflows": found})
    return table_out(found, ("id", "version", "tags", "about"), otherwise="No workflows.")


async def _show(name: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        if as_json:
            return json_out(await client.request("GET", f"/api/workflows/{segment(name)}"))
        text = await client.request("GET", _document(name))
    typer.echo(text["document"], nl=False)
    return DONE


@dataclass(frozen=True)
class _Asked:
    """The changes of the command line."""

    given: list[str]
    remove: list[str]
    rename: list[str]
    file: str | None

    def edits(self) -> list[Json]:
        """As operations of the API; raises `CommandFailed`."""
        edits = [*_operations(self.file), *map(_set, self.given)]
        edits += [{"op": "remove", "path": path} for path in self.remove]
        return edits + [_rename(word) for word in self.rename]


async def _edit(
    name: str, asked: _Asked, state_dir: Path | None, *, dry_run: bool, as_json: bool
) -> int:
    edits = asked.edits()
    if not edits:
        raise CommandFailed(
            "Name a change: --set, --remove, --rename or --operations.", code=INVALID
        )
    async with connect(state_dir) as client:
        etag = (await client.request("GET", _document(name)))["etag"]
        path, body = f"/api/workflows/{segment(name)}", {"operations": edits, "look": dry_run}
        edited = await client.request("PATCH", path, body, headers={"if-match": etag})
    return _told(edited, as_json=as_json)


async def _save(file: str, state_dir: Path | None) -> int:
    text = text_of(file)
    read_document = import_module("pipecatapp.application.engine").read_document
    name = str(read_document(text, file=file).value.get("id"))
    async with connect(state_dir) as client:
        body = {"document": text}
        saved = await client.request("PUT", _document(name), body, headers=ANY_VERSION)
    return _told(saved, as_json=False)


async def _remove(name: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        await client.request("DELETE", _document(name), headers=ANY_VERSION)
    typer.echo(f"The workflow {name} is removed.")
    return DONE


async def _diff(before: Named, after: Named, state_dir: Path | None, *, as_json: bool) -> int:
    one, other = before.document(), after.document()
    async with connect(state_dir) as client:
        body = {"before": one, "after": other}
        found = await client.request("POST", "/api/workflows/diff", body)
    if as_json:
        return json_out(found)
    typer.echo(found["diff"], nl=False)
    return DONE


def _document(name: str) -> str:
    return f"/api/workflows/{segment(name)}/document"


def _told(edited: Json, *, as_json: bool) -> int:
    wrong = bool(edited["diagnostics"])
    if as_json:
        json_out(edited)
    else:
        typer.echo(edited["diff"], nl=False)
        for one in edited["diagnostics"]:
            typer.echo(one["said"], err=True)
        if edited["saved"]:
            typer.echo(f"Workflow {edited['id']} is saved in {edited['file']}.", err=True)
    return INVALID if wrong else DONE


def _set(word: str) -> Json:
    """`path=value`; what is JSON is taken as such, all else as a text."""
    path, equals, text = word.partition("=")
    if not equals:
        raise CommandFailed(f"--set {word!r} is not of the form path=value.", code=INVALID)
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = text
    return {"op": "set", "path": path, "value": value}


def _rename(word: str) -> Json:
    path, equals, to = word.partition("=")
    if not equals:
        raise CommandFailed(f"--rename {word!r} is not of the form path=id.", code=INVALID)
    return {"op": "rename", "path": path, "to": to}


def _operations(file: str | None) -> list[Json]:
    if file is None:
        return []
    try:
        found = json.loads(text_of(file))
    except ValueError as error:
        raise CommandFailed(f"{file} is not valid JSON: {error}.", code=INVALID) from error
    return list(found)
