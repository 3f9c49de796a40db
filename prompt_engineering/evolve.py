"""`python -m prompt_engineering.evolve PROMPT …`: the same as `hearth evolve run`."""

import typer

from prompt_engineering.cli import run_campaign


def main() -> None:
    """Run the command."""
    typer.run(run_campaign)


if __name__ == "__main__":
    main()
