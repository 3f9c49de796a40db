"""`hearth code`: agents that change source code."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pipecatapp.cli.exit_codes import DONE, FAILED, INVALID, CommandFailed, exit_codes, finish
from pipecatapp.cli.options import JsonOption, StateOption
from pipecatapp.cli.run import CODES, print_run
from pipecatapp.client import connect

Json = dict[str, Any]

ModelOption = Annotated[
    str, typer.Option("--model", metavar="NAME", help="The model or role that writes the code.")
]


EditOption = Annotated[
    str,
    typer.Option(
        "--edits",
        metavar="auto|blocks|function",
        help="How the model writes a change; auto takes what worked best for it.",
    ),
]


def fix_bug(
    command: Annotated[str, typer.Argument(metavar="COMMAND", help="The command line that fails.")],
    repo: Annotated[
        Path, typer.Option("--repo", metavar="FOLDER", help="The git repository.")
    ] = Path(),
    check: Annotated[
        str,
        typer.Option("--check", metavar="COMMAND", help="Must succeed after the fix as well."),
    ] = "",
    about: Annotated[str, typer.Option("--about", help="What is wrong, in your words.")] = "",
    packages: Annotated[
        list[str],
        typer.Option(
            "--package",
            metavar="NAME",
            help="A Python package that the command needs; default: those that the project names.",
        ),
    ] = [],  # noqa: B006
    may_touch: Annotated[
        list[str],
        typer.Option(
            "--may-touch", metavar="PATTERN", help="Change only files that fit, such as src/**."
        ),
    ] = [],  # noqa: B006
    protect: Annotated[
        list[str],
        typer.Option(
            "--protect", metavar="PATTERN", help="Never change files that fit; default: tests."
        ),
    ] = [],  # noqa: B006
    models: Annotated[
        list[str],
        typer.Option(
            "--model",
            metavar="NAME",
            help="A model or role; several are asked one after the other, the last one most."
            " Default: the roles small, coder and big.",
        ),
    ] = [],  # noqa: B006
    edits: EditOption = "auto",
    patches: Annotated[
        int,
        typer.Option(
            "--patches",
            metavar="NUMBER",
            min=0,
            max=16,
            help="Patches at the same time; 0 is one for each free slot of the model.",
        ),
    ] = 0,
    state_dir: StateOption = None,
    *,
    no_model: Annotated[
        bool,
        typer.Option("--no-model", help="Ask no model; try small mistakes of logic instead."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fix the bug that makes a command fail, on a branch of the repository to review.

    The command runs in the sandbox on a copy of the last commit. In a terminal you are asked for
    guidance when the attempts fail. Exit codes: 0 nothing fails any more, 1 not fixed, 2 invalid.
    """
    with exit_codes():
        folder = repository_of(repo)
    inputs = {"repo": str(folder), "command": command, "check": check, "about": about,
              "packages": packages, "may_touch": may_touch, "edits": edits,
              "patches": patches, "no_model": no_model}  # fmt: skip
    if protect:
        inputs["protected"] = protect
    if models:
        inputs["models"] = models
    body = {"workflow": "fix-bug", "inputs": inputs}
    finish(_fix(body, state_dir, as_json=as_json))


def build_app(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the program should do.")],
    into: Annotated[
        Path,
        typer.Option(
            "--into", metavar="FOLDER", help="A new folder, or a git repository to build in."
        ),
    ],
    packages: Annotated[
        list[str],
        typer.Option("--package", metavar="NAME", help="A Python package that it may use."),
    ] = [],  # noqa: B006
    model: ModelOption = "",
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Plan, write, run and repair a program, with a README.

    In a terminal you are asked about the plan, for guidance when attempts fail, and whether the
    program is what you wanted. A new folder becomes a git repository with the program; in an
    existing one the program is a branch to review. Exit codes: 0 it runs, 1 it does not, 2 invalid.
    """
    with exit_codes():
        folder, is_new = _made_repository(into)
    inputs = {"text": text, "repo": str(folder), "packages": packages}
    body = {"workflow": "build-app", "layers": _layers("build-app", model), "inputs": inputs}
    finish(_build(body, folder if is_new else None, state_dir, as_json=as_json))


def _made_repository(folder: Path) -> tuple[Path, bool]:
    """Return the top folder of the repository, made here where there was nothing."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        return repository_of(folder), False
    folder.mkdir(parents=True, exist_ok=True)
    _git(folder, "init", "--quiet", "--initial-branch=main")
    names = ["-c", "user.name=Hearth", "-c", "user.email=hearth@localhost"]
    _git(folder, *names, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    return folder.resolve(), True


async def _build(body: Json, new: Path | None, state_dir: Path | None, *, as_json: bool) -> int:
    ended = await _run_to_the_end(body, state_dir, as_json=as_json)
    if ended["status"] != "done":
        return CODES[ended["status"]]
    branch = ended["outputs"]["branch"]
    if new and branch:
        _git(new, "merge", "--quiet", "--ff-only", branch)
    return DONE if ended["outputs"]["runs"] else FAILED


def repository_of(folder: Path) -> Path:
    """Return the top folder of the repository; warn of changes that are not committed."""
    top = _git(folder, "rev-parse", "--show-toplevel")
    if _git(folder, "status", "--porcelain", "--untracked-files=no"):
        typer.echo("Changes that are not committed are left out.", err=True)
    return Path(top.strip())


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise CommandFailed("git is not installed: run `apt-get install git` as root.") from None
    if done.returncode:
        raise CommandFailed(f"There is no git repository at {folder.resolve()}.", code=INVALID)
    return done.stdout


def _layers(workflow: str, model: str) -> list[str]:
    """A layer for this run that chooses the model, as the API takes it: the text of a document."""
    if not model:
        return []
    document = {"kind": "layer", "id": "model", "of": workflow, "set": {".defaults.model": model}}
    return [json.dumps(document) + "\n"]


async def _fix(body: Json, state_dir: Path | None, *, as_json: bool) -> int:
    ended = await _run_to_the_end(body, state_dir, as_json=as_json)
    if ended["status"] != "done":
        return CODES[ended["status"]]
    succeeds = ended["outputs"]["fixed"] or ended["outputs"]["error"] is None
    return DONE if succeeds else FAILED


async def _run_to_the_end(body: Json, state_dir: Path | None, *, as_json: bool) -> Json:
    asking = sys.stdin.isatty() and not as_json
    async with connect(state_dir) as client:
        started = await client.request("POST", "/api/runs", body | {"interactive": asking})
        return await print_run(client, started["run"], asking=asking, as_json=as_json)
