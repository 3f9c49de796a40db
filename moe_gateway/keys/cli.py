"""`hearth keys`: make, see, limit and revoke the keys by which people and programs call."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx2
import typer
from rich.console import Console
from rich.table import Table

from hearth.service.settings import SettingsError, read_key, trusting
from hearth.service.state import StateDir, ensure_state_dir
from hearth.settings import Settings
from moe_gateway.keys.admin import KeyAdmin, LocalKeyAdmin, RemoteKeyAdmin
from moe_gateway.keys.store import KeyProblem, KeyStore, Limits, Scope

Name = Annotated[str, typer.Argument(help="Name of the key, such as `kitchen-tablet`.")]
StateOption = Annotated[
    Path | None, typer.Option("--state-dir", help="State directory of the instance.")
]
GatewayOption = Annotated[
    str | None,
    typer.Option(
        "--gateway",
        metavar="URL",
        help="Manage the keys of the gateway at this address, such as `https://…:8080`.",
    ),
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        help="With `--gateway`: file with a key of the scope `admin`. Default:"
        " HEARTH_CLUSTER_KEY_FILE.",
    ),
]
CaFileOption = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        help="With `--gateway`: certificate of the authority that signed its certificate."
        " Default: HEARTH_CLUSTER_CA_FILE or the system's authorities.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model", help="A model that the key may use, or a pattern (`workflow/*`). Repeatable."
    ),
]
Scopes = Annotated[
    list[Scope] | None,
    typer.Option(
        "--scope",
        help="Permission: `chat` (experts and workflows without effects), `workflows`, `exec`"
        " (workflows that run programs), `admin` (everything). Default: chat. Repeatable.",
    ),
]
Requests = Annotated[
    int | None, typer.Option("--requests-per-minute", min=1, help="Limit of requests per minute.")
]
Tokens = Annotated[
    int | None, typer.Option("--tokens-per-minute", min=1, help="Limit of tokens per minute.")
]
Budget = Annotated[
    int | None, typer.Option("--tokens-per-day", min=1, help="Limit of tokens per day (UTC).")
]


def commands(app: typer.Typer) -> None:
    """Add the group `keys` to the command."""
    group = typer.Typer(help="Create, list, limit and revoke API keys.", no_args_is_help=True)
    group.command("add")(add_key)
    group.command("list")(list_keys)
    group.command("limit")(limit_key)
    group.command("revoke")(revoke_key)
    app.add_typer(group, name="keys")


def add_key(
    name: Name,
    model: Models = None,
    scope: Scopes = None,
    requests: Requests = None,
    tokens: Tokens = None,
    budget: Budget = None,
    state_dir: StateOption = None,
    gateway: GatewayOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
) -> None:
    """Create a key and print it. It is shown only once: only its hash is stored."""
    limits = _limits(model, scope, requests, tokens, budget)
    with _desk(state_dir, gateway, key_file, ca_file) as desk:
        key = desk.add(name, limits)
    typer.echo(key)


def list_keys(
    state_dir: StateOption = None,
    gateway: GatewayOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the keys with their limits and today's usage."""
    with _desk(state_dir, gateway, key_file, ca_file) as desk:
        rows = desk.rows()
    if as_json:
        typer.echo(json.dumps({"keys": rows}, indent=2))
    else:
        Console().print(_table(rows))


def limit_key(
    name: Name,
    model: Models = None,
    scope: Scopes = None,
    requests: Requests = None,
    tokens: Tokens = None,
    budget: Budget = None,
    state_dir: StateOption = None,
    gateway: GatewayOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
) -> None:
    """Replace the limits of a key. Without options, the key has no limits."""
    limits = _limits(model, scope, requests, tokens, budget)
    with _desk(state_dir, gateway, key_file, ca_file) as desk:
        desk.limit(name, limits)
    typer.echo(f"{name} has these limits within a second.")


def revoke_key(
    name: Name,
    state_dir: StateOption = None,
    gateway: GatewayOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
) -> None:
    """Revoke a key permanently."""
    with _desk(state_dir, gateway, key_file, ca_file) as desk:
        desk.revoke(name)
    typer.echo(f"{name} opens nothing any more, within a second.")


@contextmanager
def said_in_one_line() -> Iterator[None]:
    """A problem is one sentence and exit code 1."""
    try:
        yield
    except (KeyProblem, SettingsError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _limits(
    models: Models, scopes: Scopes, requests: Requests, tokens: Tokens, budget: Budget
) -> Limits:
    return Limits(
        tuple(models or ("*",)), tuple(map(str, scopes or (Scope.CHAT,))), requests, tokens, budget
    )


@contextmanager
def _desk(
    state_dir: Path | None, gateway: str | None, key_file: Path | None, ca_file: Path | None
) -> Iterator[KeyAdmin]:
    """Where to work; a problem in the block is one sentence and exit code 1."""
    with said_in_one_line():
        settings = Settings.load()
        if gateway is None:
            if key_file or ca_file:
                raise KeyProblem("--key-file and --ca-file are for a gateway: add --gateway URL.")
            yield LocalKeyAdmin(_store(state_dir or settings.state_dir))
            return
        key_file = key_file or settings.cluster_key_file
        if state_dir is not None or key_file is None:
            raise KeyProblem(
                "--gateway needs a key of that gateway: --key-file FILE, and no --state-dir."
            )
        with httpx2.Client(
            base_url=gateway.rstrip("/"),
            headers={"authorization": f"Bearer {read_key(key_file)}"},
            verify=trusting(ca_file or settings.cluster_ca_file),
            trust_env=False,
        ) as http:
            yield RemoteKeyAdmin(http)


def _store(root: Path) -> KeyStore:
    state = StateDir(root.expanduser().absolute())
    ensure_state_dir(state)
    return KeyStore(state.key_store)


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Name", "Key", "Made", "Models", "Scopes", "A minute", "A day", "Today"):
        table.add_column(title, overflow="fold")
    for row in rows:
        minute = [
            f"{row[f'{what}_per_minute']} {what}"
            for what in ("requests", "tokens")
            if row[f"{what}_per_minute"] is not None
        ]
        day = "" if row["tokens_per_day"] is None else f"{row['tokens_per_day']} tokens"
        table.add_row(
            row["name"],
            "revoked" if row["revoked"] else row["key"],
            row["created"][:10],
            ", ".join(row["models"]),
            ", ".join(row["scopes"]),
            ", ".join(minute),
            day,
            f"{row['today']['requests']} requests, {row['today']['tokens']} tokens",
        )
    return table
