"""`hearth run`, `hearth runs` and `hearth plan`: the workflow engine from the shell."""

import typer

from pipecatapp.cli.plan import plan_workflow
from pipecatapp.cli.run import run_workflow
from pipecatapp.cli.runs import cancel_run, list_runs, show_run


def commands(app: typer.Typer) -> None:
    """Add the commands of the workflow engine."""
    app.command("run")(run_workflow)
    app.command("plan")(plan_workflow)
    group = typer.Typer(help="List runs, look at one, cancel one.", invoke_without_command=True)
    group.callback()(list_runs)
    group.command("show")(show_run)
    group.command("cancel")(cancel_run)
    app.add_typer(group, name="runs")
