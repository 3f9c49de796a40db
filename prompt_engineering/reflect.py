"""`python -m prompt_engineering.reflect RUN`: what to do about a failed run, as JSON."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pipecatapp.cli.exit_codes import DONE, finish
from pipecatapp.client import connect
from prompt_engineering.cli import StateOption, checked
from prompt_engineering.diagnosis import by_rules, gather, reflect
from prompt_engineering.failures import failure_of


def reflect_on_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run that failed.")],
    model: Annotated[str, typer.Option("--model", help="Model that decides; default: rules.")] = "",
    state_dir: StateOption = None,
) -> None:
    """Print the facts of a failed run and the action that follows from them."""
    finish(checked(_reflect(run, model, state_dir)))


async def _reflect(run: str, model: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        facts = await gather(client, await failure_of(client, run))
        chosen = await reflect(client, facts, model) if model else by_rules(facts)
    shown = {"facts": facts.model_dump(mode="json"), **chosen.model_dump(mode="json")}
    typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    return DONE


def main() -> None:
    """Run the command."""
    typer.run(reflect_on_run)


if __name__ == "__main__":
    main()
