"""`python -m prompt_engineering.run_campaign PROMPT --rounds N -- …`: repeat `evolve.py`.

Each round is a process of its own with the next seed, so one that crashes does not end the others.
The rounds end with the first proposal.
"""

import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from pipecatapp.cli.exit_codes import DONE, FAILED

EVOLVE: Final = "prompt_engineering.evolve"


def run_rounds(prompt: str, rounds: int, options: Sequence[str], *, seed: int = 0) -> list[int]:
    """Run rounds of `evolve.py` until one proposes a prompt; return their exit codes.

    A round that ends with another code than "nothing is proposed" ends the campaign, too: its
    error is on standard error.
    """
    codes: list[int] = []
    for place in range(rounds):
        command = [sys.executable, "-m", EVOLVE, prompt, "--seed", str(seed + place), *options]
        codes.append(subprocess.run(command, check=False).returncode)
        if codes[-1] != FAILED:
            break
    return codes


def rounds_command(
    context: typer.Context,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="Id of the prompt to improve.")],
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds at most.")] = 3,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the first round.")] = 0,
) -> None:
    """Repeat evolve.py with other seeds until it proposes a prompt; further options go to it."""
    codes = run_rounds(prompt, rounds, context.args, seed=seed)
    proposed = codes[-1] == DONE
    typer.echo(f"{len(codes)} rounds. {'A prompt is proposed.' if proposed else 'No proposal.'}")
    raise typer.Exit(codes[-1])


def main() -> None:
    """Run the command."""
    app = typer.Typer(add_completion=False)
    extra = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(context_settings=extra)(rounds_command)
    app()


if __name__ == "__main__":
    main()
