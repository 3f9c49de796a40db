"""The commands of this folder, in their groups."""

import typer

from pipecatapp.cli.library import schedule


def library_commands(app: typer.Typer) -> None:
    """Add the commands for what people keep."""
    group = typer.Typer(
        help="What starts by itself: list, add, pause, resume, run, remove.",
        invoke_without_command=True,
    )
    group.callback()(schedule.list_schedules)
    group.command("add")(schedule.add_schedule)
    group.command("pause")(schedule.pause_schedule)
    group.command("resume")(schedule.resume_schedule)
    group.command("run")(schedule.run_schedule)
    group.command("remove")(schedule.remove_schedule)
    app.add_typer(group, name="schedule")
