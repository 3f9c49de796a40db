"""The reference page of project documents, written from the models that read them."""

from pydantic import BaseModel

from pipecatapp.application.library.projects import Assets, Commands, ProjectDocument

_HEAD = """# Project documents

Written by `make docs` from the code; do not edit.

YAML 1.2, in the folder `projects` of the state directory. Keys that are not listed here are
refused, with file, line and column. How to use one:
[Keep tasks, prompts and projects](../howto/keep-tasks.md).
"""


def projects_page() -> str:
    """The Markdown of `docs/reference/project-documents.md`."""
    lines = [_HEAD]
    for title, model in (
        ("Project", ProjectDocument),
        ("`commands`", Commands),
        ("`assets`", Assets),
    ):
        lines += [f"## {title}", "", model.__doc__ or "", "", *_rows(model), ""]
    return "\n".join(lines)


def _rows(model: type[BaseModel]) -> list[str]:
    rows = ["| key | required | description |", "| --- | --- | --- |"]
    for name, field in model.model_fields.items():
        needed = "yes" if field.is_required() else ""
        rows.append(f"| `{name}` | {needed} | {field.description} |")
    return rows
