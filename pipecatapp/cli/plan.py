"""`hearth plan`: what a workflow would do, or what is wrong in it."""

import json
from pathlib import Path

import typer

from pipecatapp.cli.desk import open_desk
from pipecatapp.cli.failure import DONE, INVALID, finish
from pipecatapp.cli.options import JsonOption, StateOption, WorkflowArgument, document_of


def plan_workflow(
    workflow: WorkflowArgument, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """Show the graph of a workflow without running it; exit code 2 when it is wrong."""
    finish(_plan(workflow, state_dir, as_json=as_json))


async def _plan(workflow: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with open_desk(state_dir) as desk:
        planned = await desk.plan(document_of(workflow))
    wrong = bool(planned["diagnostics"])
    if as_json:
        typer.echo(json.dumps(planned, indent=2, ensure_ascii=False))
    else:
        typer.echo(planned["text"], err=wrong)
    return INVALID if wrong else DONE
