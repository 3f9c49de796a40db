"""`hearth triggers`: workflows that start by a webhook or by a file in a folder."""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from pipecatapp.cli.exit_codes import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.inputs import typed
from pipecatapp.cli.library.schedule import moment
from pipecatapp.cli.options import JsonOption, StateOption
from pipecatapp.cli.runs import console, status_text
from pipecatapp.client import connect, segment

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a trigger, as `hearth triggers` shows it.")
]
NewIdArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Id of the trigger: a letter, then letters, digits and hyphens."
    ),
]
WorkflowArgument = Annotated[str, typer.Argument(metavar="WORKFLOW", help="A workflow's id.")]
InputOption = Annotated[
    list[str],
    typer.Option(
        "--input",
        metavar="NAME=VALUE",
        help="An input of the workflow, with expressions such as {{ body.person }}. Repeatable.",
    ),
]
LimitOption = Annotated[int, typer.Option(help="Runs in a minute, at most.", min=1, max=1000)]
EXPRESSION: Final = re.compile(r"\{\{|\{%")


def list_triggers(
    context: typer.Context, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """List triggers with their last run."""
    if context.invoked_subcommand is None:
        finish(_list(state_dir, as_json=as_json))


def add_webhook(
    id: NewIdArgument,
    workflow: WorkflowArgument,
    given: InputOption = [],  # noqa: B006
    signature: Annotated[
        str, typer.Option(help="How the sender shows that it may: standard, github or bearer.")
    ] = "standard",
    secret: Annotated[
        str,
        typer.Option(
            help="Where the secret is: kept:NAME, env:NAME or file:/path. By default, one is made "
            "and shown once."
        ),
    ] = "",
    per_minute: LimitOption = 30,
    state_dir: StateOption = None,
) -> None:
    """Start a workflow by a signed request to /hooks/ID."""
    cause = {"webhook": {"signature": signature, "secret": secret}}
    finish(_add(id, workflow, cause, given, per_minute, state_dir))


def add_folder(
    id: NewIdArgument,
    workflow: WorkflowArgument,
    folder: Annotated[Path, typer.Argument(help="The folder to watch.", resolve_path=True)],
    given: InputOption = [],  # noqa: B006
    pattern: Annotated[str, typer.Option(help="Names of files, such as '*.pdf'.")] = "*",
    per_minute: LimitOption = 30,
    state_dir: StateOption = None,
    *,
    existing: Annotated[
        bool, typer.Option("--existing", help="Also take the files that are there now.")
    ] = False,
) -> None:
    """Start a workflow for each new file of a folder; the run is given a copy."""
    since = None if existing else datetime.now(UTC).isoformat()
    cause = {"folder": {"path": str(folder), "pattern": pattern, "since": since}}
    finish(_add(id, workflow, cause, given, per_minute, state_dir))


def remove_trigger(id: IdArgument, state_dir: StateOption = None) -> None:
    """Remove a trigger and the secret that was made for it. Its runs are kept."""
    finish(_remove(id, state_dir))


def pause_trigger(id: IdArgument, state_dir: StateOption = None) -> None:
    """Start no more runs until `hearth triggers resume`."""
    finish(_pause(id, state_dir, verb="pause"))


def resume_trigger(id: IdArgument, state_dir: StateOption = None) -> None:
    """Start runs again."""
    finish(_pause(id, state_dir, verb="resume"))


async def _list(state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = (await client.request("GET", "/api/triggers"))["triggers"]
    if as_json:
        typer.echo(json.dumps({"triggers": found}, indent=2, ensure_ascii=False))
    elif found:
        console().print(_table(found))
    else:
        typer.echo("There are no triggers. See `hearth triggers webhook --help` and `… folder`.")
    return DONE


async def _add(
    id: str,
    workflow: str,
    cause: dict[str, Any],
    given: Iterable[str],
    per_minute: int,
    state_dir: Path | None,
) -> int:
    if not re.match(r"^[a-z][a-z0-9-]*$", id):
        raise CommandFailed(
            f"{id!r} is not a valid id: use lower case letters, digits and hyphens.", code=INVALID
        )
    async with connect(state_dir) as client:
        found = await client.request("GET", f"/api/workflows/{segment(workflow)}")
        inputs = _inputs(given, found["inputs"].get("properties", {}))
        new = {"workflow": workflow, "inputs": inputs, "per_minute": per_minute, **cause}
        made = await client.request("PUT", f"/api/triggers/{segment(id)}", new)
    if "folder" in cause:
        typer.echo(f"{id} starts {workflow} for each new file in {cause['folder']['path']}.")
        return DONE
    typer.echo(f"{id} starts {workflow} by POST /hooks/{id} at the address of the agent.")
    if made["secret"]:
        typer.echo(f"Secret, which is not shown again: {made['secret']}")
    return DONE


def _inputs(given: Iterable[str], properties: dict[str, Any]) -> dict[str, Any]:
    """Return inputs from `name=value` words; a value with an expression is left as it is, because
    its type is known when the trigger starts a run."""
    inputs: dict[str, Any] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals:
            raise CommandFailed(f"--input {word!r} is not of the form name=value.", code=INVALID)
        as_is = EXPRESSION.search(value) or name not in properties
        inputs[name] = value if as_is else typed(name, value, properties[name])
    return inputs


async def _remove(id: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        await client.request("DELETE", f"/api/triggers/{segment(id)}")
    typer.echo(f"{id} is removed.")
    return DONE


async def _pause(id: str, state_dir: Path | None, *, verb: str) -> int:
    async with connect(state_dir) as client:
        await client.request("POST", f"/api/triggers/{segment(id)}/{verb}")
    typer.echo(f"{id} is {'paused' if verb == 'pause' else 'active'}.")
    return DONE


def _table(triggers: list[dict[str, Any]]) -> Table:
    """One line for each trigger."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "workflow", "cause", "last", "run"):
        table.add_column(name, no_wrap=name not in ("cause", "run"))
    for one in triggers:
        settings, last = one["settings"] or {}, Text("")
        if one["error"]:
            last = Text(one["error"], style="red")
        elif one["status"]:
            last = status_text(one["status"])
        table.add_row(
            one["id"],
            settings.get("workflow", ""),
            _cause(settings),
            moment(one["started"]),
            Text(f"{one['run'] or ''} ") + last,
        )
    return table


def _cause(settings: dict[str, Any]) -> str:
    """Return in words what starts it."""
    if not settings:
        return "not valid"
    folder = settings["folder"]
    cause = f"{folder['path']}/{folder['pattern']}" if folder else "webhook"
    return f"{cause} (paused)" if settings["paused"] else cause
