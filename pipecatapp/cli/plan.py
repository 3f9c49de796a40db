"""`hearth plan`, `explain`, `flatten`: what a workflow would do, and what it is made of."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pipecatapp.cli.exit_codes import DONE, INVALID, finish
from pipecatapp.cli.inputs import parse_inputs
from pipecatapp.cli.options import (
    AllowOption,
    JsonOption,
    LayersOption,
    Named,
    SelectOption,
    StateOption,
    WorkflowArgument,
)
from pipecatapp.client import connect


def plan_workflow(
    workflow: WorkflowArgument,
    layers: LayersOption = [],  # noqa: B006
    select: SelectOption = [],  # noqa: B006
    given: Annotated[
        list[str],
        typer.Option(
            "--input", "-i", metavar="NAME=VALUE", help="An input, for a dry run. Repeatable."
        ),
    ] = [],  # noqa: B006
    fork: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Dry run as a fork of this run, with its inputs."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="PATH", help="With --fork: run again from this step on.")
    ] = None,
    allow: AllowOption = [],  # noqa: B006
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show the graph of a workflow without running it. Exit code 2: the workflow is invalid.

    With inputs, or as a fork, it is a dry run: it also shows for each step whether it would be
    called, and why. `fresh`: its result is cached. `dirty`: it is called. `maybe`: it depends on
    earlier results. Then it prints the models' prompts as far as the inputs determine them.
    """
    named = Named(workflow, layers, select, allow)
    finish(_plan(named, _Look(given, fork, at), state_dir, as_json=as_json))


def explain_field(
    workflow: WorkflowArgument,
    path: Annotated[
        str, typer.Argument(help="`node.field`, or `.field` for a field of the workflow.")
    ],
    layers: LayersOption = [],  # noqa: B006
    select: SelectOption = [],  # noqa: B006
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show the value that each layer, variant and document sets for a field. The first one is
    used."""
    finish(_explain(Named(workflow, layers, select), path, state_dir, as_json=as_json))


def flatten_workflow(
    workflow: WorkflowArgument,
    layers: LayersOption = [],  # noqa: B006
    select: SelectOption = [],  # noqa: B006
    form: Annotated[
        Literal["yaml", "usda"],
        typer.Option("--format", help="YAML, or an OpenUSD scene with every layer."),
    ] = "yaml",
    state_dir: StateOption = None,
) -> None:
    """Print the workflow that results from a document, its variants and its layers."""
    finish(_flatten(Named(workflow, layers, select), form, state_dir))


async def _explain(named: Named, path: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        body = named.document() | {"path": path}
        opinions = (await client.request("POST", "/api/plan/explain", body))["opinions"]
    if as_json:
        typer.echo(json.dumps({"opinions": opinions}, indent=2, ensure_ascii=False))
    elif not opinions:
        typer.echo(f"No layer, variant or document sets {path}.")
    for one in [] if as_json else opinions:
        value = json.dumps(one["value"], ensure_ascii=False)
        typer.echo(f"{one['path']} {one['what']} {value} by {one['by']} at {one['place']}")
    return DONE


async def _flatten(named: Named, form: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        body = named.document() | {"format": form}
        flat = await client.request("POST", "/api/plan/flat", body)
    typer.echo(flat["document"], nl=False)
    return DONE


@dataclass(frozen=True)
class _Look:
    """The options of the dry run on the command line."""

    given: list[str]
    run: str | None
    at: str | None

    def body(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Return the request for the API; None if inputs are missing, so that no dry run is
        possible."""
        if not self.given and self.run is None and schema.get("required"):
            return None
        inputs = None if self.run and not self.given else parse_inputs(self.given, schema)
        return {"inputs": inputs, "run": self.run, "at": self.at}


async def _plan(named: Named, look: _Look, state_dir: Path | None, *, as_json: bool) -> int:
    document = named.document()
    async with connect(state_dir) as client:
        planned = await client.request("POST", "/api/plan", document)
        wrong = bool(planned["diagnostics"])
        body = None if wrong else look.body(planned["inputs"])
        dry_run = None
        if body is not None:
            dry_run = await client.request("POST", "/api/plan/cache", document | body)
    if as_json:
        shown = planned | (dry_run or {})
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return INVALID if wrong else DONE
    typer.echo(planned["text"], err=wrong)
    for one in planned["warnings"]:
        typer.echo(f"warning: {one['said']}", err=True)
    if dry_run is not None:
        typer.echo("\n".join(_dry_run_lines(dry_run)))
    return INVALID if wrong else DONE


def _dry_run_lines(found: dict[str, Any]) -> Iterator[str]:
    yield "cache:"
    wide = max((len(step["path"]) for step in found["steps"]), default=0)
    for step in found["steps"]:
        yield f"  {step['path']:<{wide}}  {step['state']:<7}  {step['why']}"
    if found["prompts"]:
        yield "prompts:"
    for prompt in found["prompts"]:
        yield f"  {prompt['path']}"
        for message in prompt["messages"]:
            content = message.get("content")
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            yield from (f"    {message['role']} | {line}".rstrip() for line in text.splitlines())
