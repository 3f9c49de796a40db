"""`python -m prompt_engineering.adaptation_manager RUN`: adapt a prompt to a failed run."""

from pathlib import Path
from typing import Annotated

import typer

from pipecatapp.cli.exit_codes import DONE, FAILED, finish
from pipecatapp.client import connect
from prompt_engineering.adaptation import adapt
from prompt_engineering.cases import Check
from prompt_engineering.cli import StateOption, checked
from prompt_engineering.failures import failure_of
from prompt_engineering.opening import Options


def adapt_to_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run that failed.")],
    rejected: Annotated[
        str, typer.Option("--rejected", help="Why the answer of a run that ended is wrong.")
    ] = "",
    contains: Annotated[
        str, typer.Option("--contains", help="Text that the output must contain.")
    ] = "",
    matches: Annotated[
        str, typer.Option("--matches", help="Regular expression that the output must match.")
    ] = "",
    model: Annotated[str, typer.Option("--model", help="Model that proposes changes.")] = "",
    candidates: Annotated[int, typer.Option("--candidates", min=1, max=10_000)] = 30,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Tokens of the campaign.")] = (
        1_000_000
    ),
    state_dir: StateOption = None,
) -> None:
    """Write a case for a failed run and search for a prompt that passes it, without promoting it.

    Exit codes: 0 a prompt is proposed, 1 none is, 2 invalid, or no further attempt is allowed now.
    """
    checks = [Check(contains=contains)] if contains else []
    checks += [Check(matches=matches)] if matches else []
    options = Options(
        prompt="", candidates=candidates, budget=budget, model=model, state_dir=state_dir
    )
    finish(checked(_adapt(run, rejected, checks, options)))


async def _adapt(run: str, rejected: str, checks: list[Check], options: Options) -> int:
    async with connect(options.state_dir) as client:
        failure = await failure_of(client, run, rejected=rejected)
        adaptation, result = await adapt(client, options, failure, checks)
    proposed = result.decision == "promote"
    campaign = adaptation.campaigns[-1]
    file = Path("cases") / f"failure-{run.lower()}.yaml"
    typer.echo(f"Case {file}. Campaign {campaign}: {result.tokens} tokens.")
    typer.echo(f"Decide with `hearth evolve promote {campaign}`." if proposed else "No proposal.")
    return DONE if proposed else FAILED


def main() -> None:
    """Run the command."""
    typer.run(adapt_to_run)


if __name__ == "__main__":
    main()
