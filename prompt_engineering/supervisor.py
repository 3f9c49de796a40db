"""`python -m prompt_engineering.supervisor`: adapt to failures and watch promoted prompts."""

import asyncio
from collections.abc import Set
from typing import Annotated

import typer

from pipecatapp.cli.exit_codes import DONE, finish
from pipecatapp.client import connect
from prompt_engineering.cli import StateOption, checked, regret_text
from prompt_engineering.opening import Options
from prompt_engineering.regret import watch_promotions
from prompt_engineering.repairs import Kind, restart_unhealthy
from prompt_engineering.watching import handle_failures


def supervise(
    every: Annotated[
        float, typer.Option("--every", min=0, help="Seconds between two looks; 0: look once.")
    ] = 0.0,
    model: Annotated[
        str, typer.Option("--model", help="Model that reflects and proposes; default: none.")
    ] = "",
    candidates: Annotated[int, typer.Option("--candidates", min=1, max=10_000)] = 30,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Tokens of a campaign.")] = (
        1_000_000
    ),
    allow: Annotated[
        list[Kind],
        typer.Option(
            "--allow",
            help="Repair to perform: restart a service that is down, or serve a smaller model"
            " (more_memory). Without it repairs are only named.",
        ),
    ] = [],  # noqa: B006
    state_dir: StateOption = None,
) -> None:
    """Repair services, reflect on each new kind of failed run, and watch promoted prompts.

    No prompt becomes live or is rolled back: a person decides about each proposal.
    """
    options = Options(
        prompt="", candidates=candidates, budget=budget, model=model, state_dir=state_dir
    )
    finish(checked(_supervise(options, every, {*allow})))


async def _supervise(options: Options, every: float, allowed: Set[Kind]) -> int:
    while True:
        async with connect(options.state_dir) as client:
            if Kind.RESTART in allowed:
                for line in await restart_unhealthy(client, options.folder):
                    typer.echo(line)
            for one in await handle_failures(client, options, model=options.model, allowed=allowed):
                action = one.reflection.action
                typer.echo(f"{one.failure.run} {action}: {one.reflection.reason} {one.message}")
            for regret in await watch_promotions(client, options.folder):
                typer.echo(regret_text(regret.model_dump()))
        if not every:
            return DONE
        await asyncio.sleep(every)


def main() -> None:
    """Run the command."""
    typer.run(supervise)


if __name__ == "__main__":
    main()
