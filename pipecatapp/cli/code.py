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
RepositoryOption = Annotated[
    Path, typer.Option("--repo", metavar="FOLDER", help="The git repository.")
]
PackagesOption = Annotated[
    list[str],
    typer.Option(
        "--package",
        metavar="NAME",
        help="A Python package for the command. Default: the project's own list. Repeatable.",
    ),
]
MayTouchOption = Annotated[
    list[str],
    typer.Option(
        "--may-touch",
        metavar="PATTERN",
        help="Change only files that match, such as src/**. Repeatable.",
    ),
]
EditOption = Annotated[
    str,
    typer.Option(
        "--edits",
        metavar="auto|blocks|function",
        help="Format in which the model writes a change. auto: the one that worked best for it.",
    ),
]


def fix_bug(
    command: Annotated[str, typer.Argument(metavar="COMMAND", help="The command line that fails.")],
    repo: RepositoryOption = Path(),
    check: Annotated[
        str,
        typer.Option(
            "--check", metavar="COMMAND", help="Another command that must succeed after the fix."
        ),
    ] = "",
    about: Annotated[str, typer.Option("--about", help="A description of the bug.")] = "",
    packages: PackagesOption = [],  # noqa: B006
    may_touch: MayTouchOption = [],  # noqa: B006
    protect: Annotated[
        list[str],
        typer.Option(
            "--protect",
            metavar="PATTERN",
            help="Never change files that match. Default: tests. Repeatable.",
        ),
    ] = [],  # noqa: B006
    models: Annotated[
        list[str],
        typer.Option(
            "--model",
            metavar="NAME",
            help="A model or role. The attempts use them in turn, then the last one. Default: the"
            " roles small, coder and big. Repeatable.",
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
            help="Patches to test in parallel. Default: one for each free slot of the model.",
        ),
    ] = 0,
    state_dir: StateOption = None,
    *,
    no_model: Annotated[
        bool,
        typer.Option("--no-model", help="Use no model. Try small mistakes of logic instead."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fix the bug that makes a command fail. The fix is a branch for you to review.

    The command runs in the sandbox on a copy of the last commit. In a terminal you are asked for
    guidance when the attempts fail. Exit code: 0 the command succeeds, 1 not fixed, 2 invalid
    input.
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
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Description of the program.")],
    into: Annotated[
        Path,
        typer.Option(
            "--into", metavar="FOLDER", help="A new folder or an existing git repository."
        ),
    ],
    packages: Annotated[
        list[str],
        typer.Option(
            "--package",
            metavar="NAME",
            help="A Python package that the program may use. Repeatable.",
        ),
    ] = [],  # noqa: B006
    model: ModelOption = "",
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Plan, write, test and repair a program with a README.

    In a terminal you are asked about the plan, for guidance when attempts fail, and whether the
    program is what you wanted. A new folder becomes a git repository with the program. In an
    existing repository, the program is a branch for you to review. Exit code: 0 the program
    runs, 1 it does not, 2 invalid input.
    """
    with exit_codes():
        folder, is_new = _made_repository(into)
    inputs = {"text": text, "repo": str(folder), "packages": packages}
    body = {"workflow": "build-app", "layers": _layers("build-app", model), "inputs": inputs}
    finish(_build(body, folder if is_new else None, state_dir, as_json=as_json))


def code_task(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Description of the change.")],
    repo: RepositoryOption = Path(),
    test: Annotated[
        str,
        typer.Option("--test", metavar="COMMAND", help="Command that must succeed afterwards."),
    ] = "",
    packages: PackagesOption = [],  # noqa: B006
    may_touch: MayTouchOption = [],  # noqa: B006
    protect: Annotated[
        list[str],
        typer.Option(
            "--protect", metavar="PATTERN", help="Never change files that match. Repeatable."
        ),
    ] = [],  # noqa: B006
    reuse: Annotated[
        str,
        typer.Option(
            "--reuse",
            metavar="ask|auto|never",
            help="Whether to use a similar stored task. ask: you decide. auto: its score decides.",
        ),
    ] = "ask",
    push_to: Annotated[
        Path | None,
        typer.Option(
            "--push-to",
            metavar="FOLDER",
            help="A bare repository that receives the branch instead of --repo.",
        ),
    ] = None,
    model: ModelOption = "",
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Plan a task, do its steps, test and review the result, and deliver it as a branch.

    A failed attempt is undone and repeated with a note of its failure, at most twice. In a terminal
    you are asked what is unclear and whether to use a stored task. Exit code: 0 done, 1 not done,
    2 invalid input.
    """
    with exit_codes():
        folder = repository_of(repo)
        pushed = "" if push_to is None else _git(push_to, "rev-parse", "--absolute-git-dir").strip()
    inputs = {"text": text, "repo": str(folder), "test": test, "packages": packages,
              "may_touch": may_touch, "protected": protect, "reuse": reuse,
              "push_to": pushed}  # fmt: skip
    body = {"workflow": "coding-task", "layers": _layers("coding-task", model), "inputs": inputs}
    finish(_task(body, state_dir, as_json=as_json))


async def _task(body: Json, state_dir: Path | None, *, as_json: bool) -> int:
    ended = await _run_to_the_end(body, state_dir, as_json=as_json)
    if ended["status"] != "done":
        return CODES[ended["status"]]
    outputs = ended["outputs"]
    if outputs["done"] and not as_json:
        typer.echo(f"The result is on the branch {outputs['branch']}.")
    return DONE if outputs["done"] else FAILED


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
    """Return a layer, as text for the API, that selects the model for this run."""
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
