"""`hearth prompts`: the library of prompts, by their tags."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pipecatapp.cli.exit_codes import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.options import JsonOption, StateOption, text_of
from pipecatapp.cli.runs import console
from pipecatapp.client import connect, segment

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a prompt, as `hearth prompts` shows it.")
]


def list_prompts(
    context: typer.Context,
    words: Annotated[str, typer.Option("--search", help="Only results with these words.")] = "",
    tags: Annotated[
        list[str], typer.Option("--tag", help="Only prompts that apply to these tags. Repeatable.")
    ] = [],  # noqa: B006
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List prompts. A prompt applies if all its tags are among the given ones."""
    if context.invoked_subcommand is None:
        finish(_list(words, tags, state_dir, as_json=as_json))


def show_prompt(
    id: IdArgument, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """Print the text of a prompt."""
    finish(_show(id, state_dir, as_json=as_json))


def keep_prompt(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Markdown file with `tags:` in its front matter. Its name is the id.",
        ),
    ],
    state_dir: StateOption = None,
) -> None:
    """Save a prompt. It replaces a prompt of that id that comes with Hearth."""
    finish(_keep(file, state_dir))


def remove_prompt(id: IdArgument, state_dir: StateOption = None) -> None:
    """Remove a saved prompt. A prompt of that id that comes with Hearth is then used again."""
    finish(_remove(id, state_dir))


async def _list(words: str, tags: list[str], state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        params = {"q": words, "tag": tags}
        found = (await client.request("GET", "/api/prompts", params=params))["prompts"]
    if as_json:
        typer.echo(json.dumps({"prompts": found}, indent=2, ensure_ascii=False))
        return DONE
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("id", no_wrap=True)
    table.add_column("tags")
    table.add_column("text", overflow="ellipsis", no_wrap=True, ratio=1)
    for one in found:
        table.add_row(one["id"], ", ".join(one["tags"]), " ".join(one["text"].split()))
    console().print(table)
    return DONE


async def _show(id: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = await client.request("GET", f"/api/prompts/{segment(id)}")
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False) if as_json else found["text"])
    return DONE


async def _keep(file: Path, state_dir: Path | None) -> int:
    if file.suffix != ".md":
        raise CommandFailed(
            f"{file} is not a Markdown file: the name of a prompt's file ends in .md.", code=INVALID
        )
    text = text_of(str(file))
    async with connect(state_dir) as client:
        path = f"/api/prompts/{segment(file.stem)}"
        kept = await client.request("PUT", path, {"document": text})
    typer.echo(f"Prompt {kept['id']} is saved with the tags {', '.join(kept['tags'])}.")
    return DONE


async def _remove(id: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        await client.request("DELETE", f"/api/prompts/{segment(id)}")
    typer.echo(f"{id} is removed.")
    return DONE
