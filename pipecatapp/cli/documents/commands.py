"""The commands of this folder, in their groups."""

import typer

from pipecatapp.cli.documents import layers, testing, tools, validate, workflows


def document_commands(app: typer.Typer) -> None:
    """Add the commands for documents."""
    app.command("validate")(validate.validate_documents)
    group = typer.Typer(
        help="List, describe and call the tools of workflows and agents.",
        invoke_without_command=True,
    )
    group.callback()(tools.list_tools)
    group.command("list")(tools.list_tools)
    group.command("show")(tools.show_tool)
    group.command("run")(tools.run_tool)
    app.add_typer(group, name="tools")
    group = typer.Typer(
        help="Manage workflows: list, show, edit, compare, test, save and remove.",
        invoke_without_command=True,
    )
    group.callback()(workflows.list_workflows)
    group.command("show")(workflows.show_workflow)
    group.command("edit")(workflows.edit_workflow)
    group.command("diff")(workflows.compare_workflows)
    group.command("test")(testing.run_tests)
    group.command("save")(workflows.save_workflow)
    group.command("remove")(workflows.remove_workflow)
    app.add_typer(group, name="workflows")
    group = typer.Typer(
        help="Manage layers, which change workflows: list, show, save and remove.",
        invoke_without_command=True,
    )
    group.callback()(layers.list_layers)
    group.command("show")(layers.show_layer)
    group.command("save")(layers.save_layer)
    group.command("remove")(layers.remove_layer)
    app.add_typer(group, name="layers")
