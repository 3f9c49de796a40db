"""`hearth runs fork` and `pin`: run a run again, edited or from a step on; keep an output."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from pipecatapp.cli.desk import open_desk
from pipecatapp.cli.failure import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.inputs import parse_answers, parse_inputs
from pipecatapp.cli.options import JsonOption, LayersOption, Named, StateOption, document_of
from pipecatapp.cli.run import to_the_end
from pipecatapp.runs import Fork


def fork_run(
    run: Annotated[str, typer.Argument(metavar="ID", help="The run to run again.")],
    at: Annotated[
        str | None, typer.Option(metavar="PATH", help="From this step on, do all anew.")
    ] = None,
    edited: Annotated[
        str | None,
        typer.Option("--with", metavar="NAME|FILE", help="The workflow to run instead."),
    ] = None,
    layers: LayersOption = [],  # noqa: B006
    given: Annotated[
        list[str], typer.Option("--input", "-i", metavar="NAME=VALUE", help="Another input.")
    ] = [],  # noqa: B006
    answers: Annotated[
        list[str], typer.Option("--answer", metavar="NODE=VALUE", help="An answer beforehand.")
    ] = [],  # noqa: B006
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Run a run again and take over what stays the same: only what changed is done anew."""
    named = Named(edited, layers) if edited else None
    finish(_fork(run, at, named, (given, answers), state_dir, as_json=as_json))


def pin_step(
    run: Annotated[str, typer.Argument(metavar="ID", help="The run that has the step.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="The step whose output stands.")],
    state_dir: StateOption = None,
) -> None:
    """Print a layer in which the output of a step stands instead of its call."""
    finish(_pin(run, path, state_dir))


async def _pin(run: str, path: str, state_dir: Path | None) -> int:
    async with open_desk(state_dir) as desk:
        typer.echo(await desk.pin(run, path), nl=False)
    return DONE


async def _fork(
    run: str,
    at: str | None,
    edited: Named | None,
    words: tuple[list[str], list[str]],
    state_dir: Path | None,
    *,
    as_json: bool,
) -> int:
    given, answers = words
    async with open_desk(state_dir) as desk:
        before = await desk.show(run)
        document = edited.document() if edited else None
        inputs = None
        if given:
            planned = await desk.plan(document or document_of(before["workflow"]))
            if planned["diagnostics"]:
                raise CommandFailed(planned["text"], code=INVALID)
            schema = {**planned["inputs"], "required": []}
            inputs = before["inputs"] | parse_inputs(given, schema)
        told = document.model_dump(exclude_none=True) if document else {}
        fork = Fork(**told, inputs=inputs, at=at, answers=parse_answers(answers))
        forked = await desk.fork(run, fork)
        asking = sys.stdin.isatty() and not as_json
        return await to_the_end(desk, forked, asking=asking, as_json=as_json)
