"""`hearth plan`, `explain`, `flatten`: what a workflow would do, and what it is made of."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pipecatapp.cli.desk import open_desk
from pipecatapp.cli.failure import DONE, INVALID, finish
from pipecatapp.cli.options import (
    JsonOption,
    LayersOption,
    Named,
    SelectOption,
    StateOption,
    WorkflowArgument,
)


def plan_workflow(
    workflow: WorkflowArgument,
    layers: LayersOption = [],  # noqa: B006
    select: SelectOption = [],  # noqa: B006
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show the graph of a workflow without running it; exit code 2 when it is wrong."""
    finish(_plan(Named(workflow, layers, select), state_dir, as_json=as_json))


def explain_field(
    workflow: WorkflowArgument,
    path: Annotated[str, typer.Argument(help="`node.field`, or `.field` of the workflow itself.")],
    layers: LayersOption = [],  # noqa: B006
    select: SelectOption = [],  # noqa: B006
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show which layer, variant or document says what of a field; the first one wins."""
    finish(_explain(Named(workflow, layers, select), path, state_dir, as_json=as_json))


def flatten_workflow(
    workflow: WorkflowArgument,
    layers: LayersOption = [],  # noqa: B006
    select: SelectOption = [],  # noqa: B006
    state_dir: StateOption = None,
) -> None:
    """Write out the workflow that comes of a document, its variants and layers, as YAML."""
    finish(_flatten(Named(workflow, layers, select), state_dir))


async def _explain(named: Named, path: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with open_desk(state_dir) as desk:
        opinions = await desk.explain(named.document(), path)
    if as_json:
        typer.echo(json.dumps({"opinions": opinions}, indent=2, ensure_ascii=False))
    elif not opinions:
        typer.echo(f"Nobody says anything of {path}.")
    for one in [] if as_json else opinions:
        value = json.dumps(one["value"], ensure_ascii=False)
        typer.echo(f"{one['path']} {one['what']} {value} by {one['by']} at {one['place']}")
    return DONE


async def _flatten(named: Named, state_dir: Path | None) -> int:
    async with open_desk(state_dir) as desk:
        typer.echo(await desk.flat(named.document()), nl=False)
    return DONE


async def _plan(named: Named, state_dir: Path | None, *, as_json: bool) -> int:
    async with open_desk(state_dir) as desk:
        planned = await desk.plan(named.document())
    wrong = bool(planned["diagnostics"])
    if as_json:
        typer.echo(json.dumps(planned, indent=2, ensure_ascii=False))
    else:
        typer.echo(planned["text"], err=wrong)
    return INVALID if wrong else DONE
