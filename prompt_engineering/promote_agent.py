"""`python -m prompt_engineering.promote_agent CAMPAIGN`: the same as `hearth evolve promote`."""

import typer

from prompt_engineering.cli import promote


def main() -> None:
    """Run the command."""
    typer.run(promote)


if __name__ == "__main__":
    main()
