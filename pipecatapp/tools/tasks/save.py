"""The tool that stores a plan as a task, to be found and used again."""

import re
from typing import Annotated, Any, Final, Protocol

from pydantic import BaseModel, Field

from pipecatapp.workflow import BY_AUTHOR, Context, InvalidDocument, ToolFailed, read_layer, tool
from pipecatapp.workflow.syntax import yaml_of

LONGEST_ID: Final = 60


class SavedTask(BaseModel):
    """The stored task."""

    id: str = Field(description="Its name.")
    version: int = Field(description="1, or more where a task of this name was stored before.")
    tags: list[str] = Field(description="Tags for searches.")


class TaskStore(Protocol):
    """Stores the documents of tasks and lets workflows use them from then on."""

    async def keep_task(self, document: str, *, file: str = ...) -> Any:
        """Store a task; returns it with `id`, `version` and `tags`. Raises `InvalidDocument`."""


class Tasks:
    """The `TaskStore` of the application, for `Context.service`."""

    def __init__(self, store: TaskStore) -> None:
        self.store = store


@tool("task.save", effect="external", version=1, idempotent=True)
async def save(
    ctx: Context,
    title: Annotated[str, Field(description="A few words that name it.", min_length=1)],
    base: Annotated[str, BY_AUTHOR, Field(description="The workflow that the plan extends.")],
    layers: Annotated[list[str], BY_AUTHOR, Field(description="The layers of the plan.")],
    about: Annotated[str, Field(description="Description, in one sentence.")] = "",
    tags: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=40)]],
        Field(description="Words to find it by.", max_length=20),
    ] = [],  # noqa: B006
) -> SavedTask:
    """Store a plan as a task, without the notes of the run. The same plan twice is one version."""
    document: dict[str, Any] = {
        "kind": "workflow",
        "id": task_id(title),
        "extends": base,
        "tags": list(dict.fromkeys([*tags, "task"])),
        "about": about or title,
    }
    for text in layers:
        layer = read_layer(text, file="layer").document
        overrides = layer.model_dump(by_alias=True, exclude_defaults=True)
        # Layers append only the notes of the run.
        for name in ("add", "disable"):
            if overrides.get(name):
                document.setdefault(name, []).extend(overrides[name])
        if overrides.get("set"):
            document.setdefault("set", {}).update(overrides["set"])
    try:
        kept = await ctx.service(Tasks).store.keep_task(yaml_of(document))
    except InvalidDocument as error:
        raise ToolFailed(f"The plan cannot be stored as a task: {error}") from error
    return SavedTask(id=kept.id, version=kept.version, tags=list(kept.tags))


def task_id(title: str) -> str:
    """A name for a task, from its title."""
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:LONGEST_ID].strip("-")
    return f"task-{name}" if name else "task"
