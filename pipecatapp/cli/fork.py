"""`hearth runs again`, `fork`, `compare`, `changes`, `pin`: repeat a run, see what differs."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipecatapp.cli.exit_codes import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.inputs import parse_answers, parse_inputs
from pipecatapp.cli.options import JsonOption, LayersOption, Named, StateOption, document_of
from pipecatapp.cli.run import to_the_end
from pipecatapp.cli.runs import RunArgument, console, seconds_text, status_text
from pipecatapp.client import connect, segment

LONGEST: Final = 60
"""Characters of a value that are shown; `--json` has all of it."""


def fork_run(
    run: Annotated[str, typer.Argument(metavar="ID", help="Id of the run to fork.")],
    at: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Run again from this step on, without reusing results."),
    ] = None,
    edited: Annotated[
        str | None,
        typer.Option(
            "--with", metavar="NAME|FILE", help="The workflow to run instead of the original."
        ),
    ] = None,
    layers: LayersOption = [],  # noqa: B006
    given: Annotated[
        list[str],
        typer.Option(
            "--input",
            "-i",
            metavar="NAME=VALUE",
            help="An input that replaces the original one. Repeatable.",
        ),
    ] = [],  # noqa: B006
    answers: Annotated[
        list[str],
        typer.Option(
            "--answer", metavar="NODE=VALUE", help="The answer to a node's question. Repeatable."
        ),
    ] = [],  # noqa: B006
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Run again, reusing results that are still valid."""
    named = Named(edited, layers) if edited else None
    finish(_fork(run, at, named, (given, answers), state_dir, as_json=as_json))


def run_again(
    run: Annotated[str, typer.Argument(metavar="ID", help="Id of the run to repeat.")],
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Repeat a run with the same inputs, without reusing results."""
    finish(_again(run, state_dir, as_json=as_json))


async def _again(run: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        started = (await client.request("POST", f"/api/runs/{segment(run)}/again"))["run"]
        asking = sys.stdin.isatty() and not as_json
        return await to_the_end(client, started, asking=asking, as_json=as_json)


def pin_step(
    run: Annotated[str, typer.Argument(metavar="ID", help="Id of the run with the step.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="Path of the step.")],
    state_dir: StateOption = None,
) -> None:
    """Print a layer that replaces a step by its recorded output."""
    finish(_pin(run, path, state_dir))


async def _pin(run: str, path: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        layer = await client.text("GET", f"/api/runs/{segment(run)}/pin", params={"path": path})
    typer.echo(layer, nl=False)
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
    async with connect(state_dir) as client:
        before = await client.request("GET", f"/api/runs/{segment(run)}")
        document = edited.document() if edited else None
        inputs = None
        if given:
            wanted = document or document_of(before["workflow"])
            planned = await client.request("POST", "/api/plan", wanted)
            if planned["diagnostics"]:
                raise CommandFailed(planned["text"], code=INVALID)
            schema = {**planned["inputs"], "required": []}
            inputs = before["inputs"] | parse_inputs(given, schema)
        fork = {"inputs": inputs, "at": at, "answers": parse_answers(answers), **(document or {})}
        path = f"/api/runs/{segment(run)}/fork"
        forked = (await client.request("POST", path, fork))["run"]
        asking = sys.stdin.isatty() and not as_json
        return await to_the_end(client, forked, asking=asking, as_json=as_json)


def compare_runs(
    run: RunArgument,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Id of the run to compare with.")],
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Compare the inputs, outputs and differing steps of two runs."""
    finish(_compare(run, other, state_dir, as_json=as_json))


def changes_of_run(
    run: RunArgument,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="Path of a step. Default: the whole run.")
    ] = None,
    state_dir: StateOption = None,
) -> None:
    """Print the changes of a run, or of one of its steps, in its workspace as a unified diff."""
    finish(_changes(run, path, state_dir))


async def _compare(run: str, other: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        path = f"/api/runs/{segment(run)}/compare"
        found = await client.request("GET", path, params={"with": other})
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        console().print(beside(found))
    return DONE


async def _changes(run: str, path: str | None, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        params = {} if path is None else {"path": path}
        diff = await client.text("GET", f"/api/runs/{segment(run)}/changes", params=params)
    typer.echo(diff if diff else "Nothing was changed.")
    return DONE


def beside(found: dict[str, Any]) -> Group:
    """The document, inputs, outputs and steps that differ, the first run left, the second right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("what", found["before"], found["after"], "differs"):
        table.add_column(name)
    table.add_row("", *(_totals(run) for run in found["runs"]))
    for field in found["document"]:
        name = f"document {field['path']} {field['field']}".replace("  ", " ")
        table.add_row(Text(name), _value(field["before"]), _value(field["after"]))
    for kind in ("inputs", "outputs"):
        for name, (before, after) in found[kind].items():
            table.add_row(f"{kind[:-1]} {name}", _value(before), _value(after))
    for step in found["steps"]:
        sides = [_side(step[name]) for name in ("before", "after")]
        table.add_row(Text(step["path"]), *sides, Text(", ".join(step["differs"]), style="dim"))
    return Group(table, Text(f"{found['same']} steps are alike."), *_reasons(found))


def _totals(run: dict[str, Any]) -> Text:
    tokens = run["tokens"]["prompt"] + run["tokens"]["completion"]
    facts = [f"{run['steps']} steps", f"{seconds_text(run['seconds'])} s", f"{tokens} tokens"]
    return status_text(run["status"]) + Text(f"  {'  '.join(facts)}", style="dim")


def _reasons(found: dict[str, Any]) -> list[Text]:
    """The step with which two runs part, and the field of its key that differs."""
    lines = []
    if first := found["first"]:
        fields = ", ".join(first["fields"])
        lines.append(Text(f"The first step with another key is {first['path']}: {fields}."))
    if drifted := found["drifted"]:
        lines.append(Text(f"{drifted} gave another output for the same key."))
    return lines


def _value(value: Any) -> Text:
    text = json.dumps(value, ensure_ascii=False)
    return Text(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def _side(step: dict[str, Any] | None) -> Text:
    if step is None:
        return Text("-", style="dim")
    facts = [step["model"] or "", f"{seconds_text(step['seconds'])} s", f"{step['tokens']} tokens"]
    said = "  ".join(fact for fact in facts if fact not in ("", " s", "0 tokens"))
    return status_text(step["status"]) + Text(f"  {said}" if said else "", style="dim")
