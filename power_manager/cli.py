"""`hearth power`: see the machines that may sleep, wake them, and let them sleep."""

import getpass
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import httpx2
import typer
from rich.console import Console
from rich.table import Table

from hearth.service.settings import SettingsError, read_key, trusting
from hearth.settings import Settings

Json = dict[str, Any]

ASK_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.5
UNITS: Final = {"m": 60, "h": 3600, "d": 86_400}

Name = Annotated[str, typer.Argument(help="Name of the machine, such as `rack`.")]
ManagerOption = Annotated[
    str | None,
    typer.Option(
        "--manager",
        metavar="URL",
        help="Address of the power manager, such as `https://attic:8094`. Default:"
        " HEARTH_POWER_URL.",
    ),
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option("--key-file", help="File with its key. Default: HEARTH_CLUSTER_KEY_FILE."),
]
CaFileOption = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        help="Certificate of the authority that signed its certificate. Default:"
        " HEARTH_CLUSTER_CA_FILE or the system's authorities.",
    ),
]
WaitOption = Annotated[
    int, typer.Option("--wait", min=0, metavar="SECONDS", help="Wait at most so long; 0: do not.")
]


class PowerProblem(Exception):
    """Do what the sentence says, then try again."""


def commands(app: typer.Typer) -> None:
    """Add the group `power` to the command."""
    group = typer.Typer(
        help="See machines that sleep, wake them, keep them awake, and test both.",
        no_args_is_help=True,
    )
    group.command("list")(list_machines)
    group.command("wake")(wake)
    group.command("sleep")(sleep)
    group.command("hold")(hold)
    group.command("release")(release)
    group.command("test")(measure)
    app.add_typer(group, name="power")


def list_machines(
    manager: ManagerOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the machines that may sleep: state, idle time, holds, and the time of a wake."""
    with _connected(manager, key_file, ca_file) as client:
        rows = client.rows()
    if as_json:
        typer.echo(json.dumps({"machines": rows}, indent=2))
    else:
        Console().print(_table(rows))


def wake(
    name: Name,
    manager: ManagerOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
    seconds: WaitOption = 180,
) -> None:
    """Wake a machine, and wait until it answers."""
    with _connected(manager, key_file, ca_file) as client:
        if not client.begin_wake(name):
            message = f"{name} is awake."
        elif seconds:
            message = f"{name} woke up in {client.wait_awake(name, seconds):.1f} s."
        else:
            message = f"{name} is being woken."
    typer.echo(message)


def sleep(
    name: Name,
    manager: ManagerOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
    seconds: WaitOption = 180,
) -> None:
    """Let a machine sleep without its idle time, and wait until it does. It stays awake while
    somebody needs it.
    """
    with _connected(manager, key_file, ca_file) as client:
        client.sleep(name, seconds)
    typer.echo(f"{name} sleeps." if seconds else f"{name} sleeps when it asks next.")


def hold(
    name: Name,
    how_long: Annotated[str, typer.Argument(help="Such as `90m`, `8h` or `2d`; at most 7 days.")],
    manager: ManagerOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Shown to those who want it to sleep.")
    ] = "a person asked for it",
) -> None:
    """Keep a machine awake, and wake it if it sleeps."""
    with _connected(manager, key_file, ca_file) as client:
        client.hold(name, _seconds(how_long), reason)
    typer.echo(f"{name} stays awake for {how_long}.")


def release(
    name: Name,
    manager: ManagerOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
) -> None:
    """End what `hearth power hold` of the same person on the same computer began."""
    with _connected(manager, key_file, ca_file) as client:
        client.release(name)
    typer.echo(f"{name} may sleep when it is idle.")


def measure(
    name: Name,
    manager: ManagerOption = None,
    key_file: KeyFileOption = None,
    ca_file: CaFileOption = None,
    seconds: Annotated[
        int, typer.Option("--wait", min=1, metavar="SECONDS", help="Wait at most so long for each.")
    ] = 300,
) -> None:
    """Let a machine sleep, wake it, and say how long both took, or what to check."""
    with _connected(manager, key_file, ca_file) as client:
        began = time.monotonic()
        client.sleep(name, seconds)
        typer.echo(f"{name} sleeps after {time.monotonic() - began:.0f} s.")
        if not client.begin_wake(name):
            raise PowerProblem(f"Something else woke {name}: test it again.")
        took = client.wait_awake(name, seconds)
    typer.echo(f"It woke up in {took:.1f} s: wake-on-LAN works.")


class PowerClient:
    """The API of the power manager; `http` has its address and a key."""

    def __init__(self, http: httpx2.Client) -> None:
        self.http = http

    def rows(self) -> list[Json]:
        rows: list[Json] = self._ask("GET", "")
        return rows

    def begin_wake(self, name: str) -> bool:
        """Wake a machine, and return at once whether that was necessary."""
        state: Json = self._ask("POST", f"{_part(name)}/wake", {})
        return bool(state["state"] != "awake")

    def wait_awake(self, name: str, seconds: int) -> float:
        """Wait until a machine is awake, and return the seconds that this took.

        Raises `PowerProblem` if it does not wake up in time.
        """
        began = time.monotonic()
        state = self._until(name, seconds, lambda now: now["state"] in ("awake", "failed"))
        if state["state"] == "failed":
            raise PowerProblem(f"{name} did not wake up. {state['reason']}")
        return time.monotonic() - began

    def sleep(self, name: str, seconds: int) -> None:
        """Let a machine sleep. Raises `PowerProblem` if it does not in time."""
        self._ask("POST", f"{_part(name)}/sleep")
        if not seconds:
            return
        now = self._until(name, seconds, _decided)
        if now["state"] != "asleep":
            raise PowerProblem(f"{name} stays awake. {now['reason']}")

    def hold(self, name: str, seconds: int, reason: str) -> None:
        """Keep a machine awake."""
        body = {"holder": _holder(), "reason": reason, "seconds": seconds, "wake": True}
        self._ask("POST", f"{_part(name)}/holds", body)

    def release(self, name: str) -> None:
        """End the hold of this person."""
        self._ask("DELETE", f"{_part(name)}/holds/{quote(_holder(), safe='')}")

    def _until(self, name: str, seconds: int, holds: Callable[[Json], bool]) -> Json:
        until = time.monotonic() + seconds
        while True:
            now: Json = self._ask("GET", _part(name))
            if holds(now):
                return now
            if time.monotonic() > until:
                reason = f" {now['reason']}" if now["reason"] else ""
                raise PowerProblem(f"After {seconds} s, {name} is {now['state']}.{reason}")
            time.sleep(LOOK_SECONDS)

    def _ask(self, method: str, path: str, body: Json | None = None) -> Any:
        where = self.http.base_url
        try:
            answer = self.http.request(
                method, f"/api/machines{path}", json=body, timeout=ASK_SECONDS
            )
        except httpx2.TransportError as error:
            reason = str(error) or type(error).__name__
            raise PowerProblem(
                f"The power manager at {where} does not answer: {reason}."
            ) from error
        try:
            found = answer.json()
            if not answer.is_success:
                raise PowerProblem(found["error"]["message"])
        except (ValueError, KeyError, TypeError) as error:
            message = f"The server at {where} is not a power manager (HTTP {answer.status_code})."
            raise PowerProblem(message) from error
        return found


@contextmanager
def _connected(
    manager: str | None, key_file: Path | None, ca_file: Path | None
) -> Iterator[PowerClient]:
    """Connect to the power manager; a problem in the block is one sentence and exit code 1."""
    try:
        settings = Settings.load()
        url = manager or (str(settings.power_url) if settings.power_url else None)
        key_file = key_file or settings.cluster_key_file
        if url is None or key_file is None:
            missing = "--manager URL" if url is None else "--key-file FILE"
            raise PowerProblem(f"The power manager and its key are needed: add {missing}.")
        with httpx2.Client(
            base_url=url.rstrip("/"),
            headers={"authorization": f"Bearer {read_key(key_file)}"},
            verify=trusting(ca_file or settings.cluster_ca_file),
            trust_env=False,
        ) as http:
            yield PowerClient(http)
    except (PowerProblem, SettingsError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _decided(state: Json) -> bool:
    """Whether a machine that a person let sleep does so, or has refused."""
    return state["state"] != "draining" and not state["sleep_requested"]


def _part(name: str) -> str:
    return f"/{quote(name, safe='')}"


def _holder() -> str:
    """Return the person at this computer, as the holder of a hold."""
    return f"{getpass.getuser()}@{socket.gethostname()}"[:100]


def _seconds(how_long: str) -> int:
    found = re.fullmatch(r"(\d+)([mhd])", how_long)
    if found is None or not 0 < int(found[1]) * UNITS[found[2]] <= 7 * UNITS["d"]:
        raise PowerProblem(f"{how_long!r} is not a time of at most 7 days, such as 90m, 8h or 2d.")
    return int(found[1]) * UNITS[found[2]]


def _table(rows: list[Json]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Name", "State", "Idle", "Sleeps after", "Wakes in", "Held by", "Reason"):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(
            row["name"],
            row["state"],
            _time(row["idle_seconds"]) if row["state"] == "awake" else "",
            _time(row["sleep_after_seconds"]),
            _time(row["wake_seconds_p50"]),
            ", ".join(f"{one['holder']}: {one['reason']}" for one in row["holds"]),
            row["reason"],
        )
    return table


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
