"""`hearth runs fork`, `compare`, `changes`, `pin`: run a run again, see what came otherwise."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipecatapp.cli.desk import open_desk
from pipecatapp.cli.failure import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.inputs import parse_answers, parse_inputs
from pipecatapp.cli.options import JsonOption, LayersOption, Named, StateOption, document_of
from pipecatapp.cli.run import to_the_end
from pipecatapp.cli.runs import RunArgument, console, seconds_text, status_text
from pipecatapp.runs import Fork

LONGEST: Final = 60
"""Characters of a value that are shown; `--json` has all of it."""


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


def compare_runs(
    run: RunArgument,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The run to see beside it.")],
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show two runs beside each other: what went in and out, and each step that differs."""
    finish(_compare(run, other, state_dir, as_json=as_json))


def changes_of_run(
    run: RunArgument,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="A step; without it the whole run.")
    ] = None,
    state_dir: StateOption = None,
) -> None:
    """Print what a run, or one step of it, changed in its workspace, as a unified diff."""
    finish(_changes(run, path, state_dir))


async def _compare(run: str, other: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with open_desk(state_dir) as desk:
        found = await desk.compare(run, other)
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        console().print(beside(found))
    return DONE


async def _changes(run: str, path: str | None, state_dir: Path | None) -> int:
    async with open_desk(state_dir) as desk:
        diff = await desk.changes(run, path)
    typer.echo(diff if diff else "Nothing was changed.")
    return DONE


def beside(found: dict[str, Any]) -> Group:
    """Inputs, outputs and steps that differ, the first run left and the second right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("what", found["before"], found["after"], "differs"):
        table.add_column(name)
    for kind in ("inputs", "outputs"):
        for name, (before, after) in found[kind].items():
            table.add_row(f"{kind[:-1]} {name}", _value(before), _value(after))
    for step in found["steps"]:
        sides = [_side(step[name]) for name in ("before", "after")]
        table.add_row(Text(step["path"]), *sides, Text(", ".join(step["differs"]), style="dim"))
    return Group(*([table] if table.rows else []), Text(f"{found['same']} steps are alike."))


def _value(value: Any) -> Text:
    text = json.dumps(value, ensure_ascii=False)
    return Text(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def _side(step: dict[str, Any] | None) -> Text:
    if step is None:
        return Text("-", style="dim")
    facts = [step["model"] or "", f"{seconds_text(step['seconds'])} s", f"{step['tokens']} tokens"]
    said = "  ".join(fact for fact in facts if fact not in ("", " s", "0 tokens"))
    return status_text(step["status"]) + Text(f"  {said}" if said else "", style="dim")
