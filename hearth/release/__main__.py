"""Build release archives and pin versions of programs (`python -m hearth.release`)."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from hearth.release.environment import LOCKS, build, stamp
from hearth.release.errors import ReleaseError
from hearth.release.pins import pin

ROOT = Path(__file__).parents[2]
app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.command("version")
def version_command() -> None:
    """Print the version of this checkout, which ends with a digest of its content."""
    typer.echo(stamp(ROOT))


@app.command("archives")
def archives_command(
    arch: Annotated[
        str, typer.Option(help="Architecture of the machines, x86_64 or aarch64.")
    ] = "x86_64",
    python: Annotated[str, typer.Option(help="Python version of the machines.")] = "3.11",
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help=f"Set of packages ({', '.join(LOCKS)}), repeatable; without it, all."
        ),
    ] = None,
) -> None:
    """Build the archives that machines unpack, unless they exist, and print their paths as JSON."""
    folder = ROOT / ".cache" / "releases"
    archives = build(ROOT, folder, arch=arch, python=python, sets=sets or list(LOCKS))
    typer.echo(json.dumps({"version": stamp(ROOT), "archives": [str(path) for path in archives]}))


@app.command("pin")
def pin_command(
    name: Annotated[str, typer.Argument(help="Entry of artifacts.yaml, such as nomad.")],
    version: Annotated[str, typer.Argument(help="Version to pin.")],
) -> None:
    """Pin a version of a program with the checksums that its vendor publishes."""
    for arch, digest in pin(ROOT / "group_vars/all/artifacts.yaml", name, version).items():
        typer.echo(f"{name} {version} {arch} {digest}")


if __name__ == "__main__":
    try:
        app(standalone_mode=True)
    except ReleaseError as error:
        typer.echo(str(error), err=True)
        sys.exit(1)
