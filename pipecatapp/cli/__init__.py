"""`hearth run`, `runs`, `plan`, `explain`, `flatten`: the workflow engine from the shell."""

import typer

from pipecatapp.cli.backup import back_up, restore
from pipecatapp.cli.code import build_app, code_task, fix_bug
from pipecatapp.cli.code_memory import code_memory
from pipecatapp.cli.conversations import conversation_commands
from pipecatapp.cli.documents.commands import document_commands
from pipecatapp.cli.fork import changes_of_run, compare_runs, fork_run, pin_step, run_again
from pipecatapp.cli.home import home_commands
from pipecatapp.cli.library.commands import library_commands
from pipecatapp.cli.plan import explain_field, flatten_workflow, plan_workflow
from pipecatapp.cli.retention import delete_runs, export_runs, import_runs, prune_runs
from pipecatapp.cli.run import run_workflow
from pipecatapp.cli.run_files import files_of_run
from pipecatapp.cli.runs import (
    answer_run,
    cancel_run,
    follow_run,
    list_runs,
    note_run,
    show_run,
    todo_run,
)


def commands(app: typer.Typer) -> None:
    """Add the commands of the workflow engine."""
    app.command("run")(run_workflow)
    app.command("plan")(plan_workflow)
    app.command("explain")(explain_field)
    app.command("flatten")(flatten_workflow)
    app.command("backup")(back_up)
    app.command("restore")(restore)
    group = typer.Typer(help="Fix and write source code with agents.", no_args_is_help=True)
    group.command("fix")(fix_bug)
    group.command("build")(build_app)
    group.command("task")(code_task)
    group.command("memory")(code_memory)
    app.add_typer(group, name="code")
    app.add_typer(_run_commands(), name="runs")
    conversation_commands(app)
    home_commands(app)
    document_commands(app)
    library_commands(app)


def _run_commands() -> typer.Typer:
    """Return the commands on runs that are there."""
    group = typer.Typer(
        help="Manage runs: list, show, answer, cancel, repeat, compare, export and delete.",
        invoke_without_command=True,
    )
    group.callback()(list_runs)
    group.command("list")(list_runs)
    group.command("show")(show_run)
    group.command("events")(follow_run)
    group.command("cancel")(cancel_run)
    group.command("answer")(answer_run)
    group.command("note")(note_run)
    group.command("todo")(todo_run)
    group.command("again")(run_again)
    group.command("fork")(fork_run)
    group.command("pin")(pin_step)
    group.command("compare")(compare_runs)
    group.command("changes")(changes_of_run)
    group.command("files")(files_of_run)
    group.command("prune")(prune_runs)
    group.command("delete")(delete_runs)
    group.command("export")(export_runs)
    group.command("import")(import_runs)
    return group
