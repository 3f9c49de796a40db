"""The commands of this folder, in their groups."""

import typer

from pipecatapp.cli.library import (
    bundles,
    fixes,
    importing,
    knowledge,
    projects,
    prompts,
    schedule,
    secrets,
    tasks,
    triggers,
)


def library_commands(app: typer.Typer) -> None:
    """Add the commands for what people keep."""
    app.command("import")(importing.import_file)
    _schedule(app)
    _triggers(app)
    _tasks(app)
    group = typer.Typer(
        help="Manage system prompts: list, show, add and remove.", invoke_without_command=True
    )
    group.callback()(prompts.list_prompts)
    group.command("show")(prompts.show_prompt)
    group.command("add")(prompts.keep_prompt)
    group.command("remove")(prompts.remove_prompt)
    app.add_typer(group, name="prompts")
    group = typer.Typer(help="List and show projects.", invoke_without_command=True)
    group.callback()(projects.list_projects)
    group.command("show")(projects.show_project)
    app.add_typer(group, name="projects")
    group = typer.Typer(
        help="Manage secrets for programs of projects: list, set and remove.",
        invoke_without_command=True,
    )
    group.callback()(secrets.list_secrets)
    group.command("set")(secrets.keep_secret)
    group.command("remove")(secrets.remove_secret)
    app.add_typer(group, name="secrets")
    _fixes(app)
    _bundles(app)


def _fixes(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Manage stored fixes: list, show, export, import and remove.",
        invoke_without_command=True,
    )
    group.callback()(fixes.list_fixes)
    group.command("list")(fixes.list_fixes)
    group.command("show")(fixes.show_fix)
    group.command("export")(fixes.export_fixes)
    group.command("import")(fixes.import_fixes)
    group.command("forget")(fixes.forget_fixes)
    app.add_typer(group, name="fixes")
    _knowledge(app)


def _knowledge(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Manage indexed documents: add, list, show, search, update and remove.",
        invoke_without_command=True,
    )
    group.callback()(knowledge.list_sources)
    group.command("list")(knowledge.list_sources)
    group.command("add")(knowledge.add_source)
    group.command("show")(knowledge.show_source)
    group.command("search")(knowledge.search_sources)
    group.command("update")(knowledge.update_source)
    group.command("readers")(knowledge.change_readers)
    group.command("remove")(knowledge.remove_source)
    app.add_typer(group, name="knowledge")


def _bundles(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Give workflows, prompts and projects to another home, or take some: export, show "
        "and import.",
        invoke_without_command=True,
    )
    group.callback()(bundles.list_keys)
    group.command("export")(bundles.export_bundle)
    group.command("show")(bundles.show_bundle)
    group.command("import")(bundles.import_bundle)
    app.add_typer(group, name="bundles")


def _schedule(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Manage schedules: list, add, pause, resume, run and remove.",
        invoke_without_command=True,
    )
    group.callback()(schedule.list_schedules)
    group.command("add")(schedule.add_schedule)
    group.command("pause")(schedule.pause_schedule)
    group.command("resume")(schedule.resume_schedule)
    group.command("run")(schedule.run_schedule)
    group.command("remove")(schedule.remove_schedule)
    app.add_typer(group, name="schedule")


def _triggers(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Manage triggers: webhooks and watched folders that start workflows.",
        invoke_without_command=True,
    )
    group.callback()(triggers.list_triggers)
    group.command("webhook")(triggers.add_webhook)
    group.command("folder")(triggers.add_folder)
    group.command("pause")(triggers.pause_trigger)
    group.command("resume")(triggers.resume_trigger)
    group.command("remove")(triggers.remove_trigger)
    app.add_typer(group, name="triggers")


def _tasks(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Manage stored tasks: list, show, add, copy, run and remove.",
        invoke_without_command=True,
    )
    group.callback()(tasks.list_tasks)
    group.command("show")(tasks.show_task)
    group.command("add")(tasks.keep_task)
    group.command("copy")(tasks.keep_variant)
    group.command("vary", hidden=True)(tasks.keep_variant)  # its name until 0.1
    group.command("run")(tasks.run_task)
    group.command("remove")(tasks.remove_task)
    app.add_typer(group, name="tasks")
