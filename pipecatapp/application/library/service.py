"""Show, save and remove prompts, stored tasks and projects; import files of older programs."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hearth.files import sync_folder, write_atomic
from pipecatapp.application.documents.files import SHIPPED, load_prompt, stored_prompt
from pipecatapp.application.importers.reading import import_document
from pipecatapp.application.library.projects import load_project, project_files
from pipecatapp.application.library.promotions import check_not_promoted
from pipecatapp.application.library.searching import find_prompts
from pipecatapp.application.runs import Document, Planned, RunService, shown
from pipecatapp.records.tasks import StoredTask, StoredTasks, task_file
from pipecatapp.workflow import Diagnostic, InvalidDocument, Prompt, read_document
from pipecatapp.workflow.syntax import yaml_of

ID = r"^[a-z][a-z0-9-]*$"


class UnknownPrompt(LookupError):
    """The prompt does not exist: see the list of prompts."""


class UnknownProject(LookupError):
    """The project does not exist: see the list of projects."""


class PromptSummary(BaseModel):
    """One prompt; `kept` if it is a user's, not a shipped one."""

    id: str
    tags: list[str]
    text: str
    kept: bool


class TaskSummary(BaseModel):
    """The newest version of a task in a list."""

    id: str
    version: int
    at: str
    about: str
    tags: list[str]


class TaskDetail(TaskSummary):
    """One version with its document; `versions` are all there are, the newest first."""

    document: str
    versions: list[int]


class ProjectDetail(BaseModel):
    """The values that workflows read as `project.…`, and the models bound to the project's
    roles."""

    id: str
    values: dict[str, Any]
    models: dict[str, Any]


class ImportedFile(BaseModel):
    """The converted workflow as YAML, the parts to check, and its plan; nothing is stored."""

    document: str
    look_at: list[dict[str, Any]]
    plan: Planned


class Variant(BaseModel):
    """A new task that is another one with other tags, words about it, and fields."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(pattern=ID, max_length=200)
    tags: list[str] = []
    about: str = ""
    set: dict[str, Any] = {}
    """Fields by path, as in a layer: `summary.with.temperature`."""


class LibraryService:
    """The prompts, tasks and projects of one instance and its state directory."""

    def __init__(self, runs: RunService, state: Path) -> None:
        self.runs, self._state = runs, state
        self._tasks = StoredTasks(runs.engine.ledger)

    def import_file(
        self, text: str, *, file: str, name: str = "", models: dict[str, str] | None = None
    ) -> ImportedFile:
        """An old file as a workflow; raises `InvalidDocument` for one of no known format."""
        tags = {tag for prompt in self.runs.engine.prompts.values() for tag in prompt.tags}
        imported = import_document(text, file=file, name=name, models=models, prompts=tags)
        planned = self.runs.planned(Document(document=imported.text, file=f"{file} as imported"))
        look_at = shown(sorted(set(imported.left_out)))
        return ImportedFile(document=imported.text, look_at=look_at, plan=planned)

    def prompts(self, words: str = "", tags: Sequence[str] = ()) -> list[PromptSummary]:
        """Those that apply to the tags; of them those that have one of the words, best first."""
        return [self._card(one) for one in find_prompts(self._prompts.values(), words, tags)]

    def prompt(self, id: str) -> PromptSummary:
        """Raises `UnknownPrompt`."""
        if id not in self._prompts:
            raise UnknownPrompt(f"There is no prompt {id!r}.")
        return self._card(self._prompts[id])

    def keep_prompt(self, id: str, text: str) -> PromptSummary:
        """Store a prompt from Markdown with tags in front; it replaces a shipped one with the same
        id.

        Raises `InvalidDocument`, and `PromptPromoted` while a promoted version is live.
        """
        check_not_promoted(self._state, id)
        file = self._prompt_file(id)
        prompt = load_prompt(text, file=str(file))
        write_atomic(file, text)
        self._tell({**self._prompts, id: prompt})
        return self.prompt(id)

    def remove_prompt(self, id: str) -> None:
        """Remove a user's prompt; a shipped one with the same id is used again.

        Raises `UnknownPrompt`, also for a shipped prompt, and `PromptPromoted`.
        """
        check_not_promoted(self._state, id)
        if not self._prompt_file(id).exists():
            raise UnknownPrompt(f"No prompt {id!r} is kept here.")
        self._prompt_file(id).unlink()
        sync_folder(self._prompt_file(id).parent)
        left = {name: one for name, one in self._prompts.items() if name != id}
        self._tell(left | stored_prompt(self._state, id))

    def tasks(
        self, words: str = "", tags: Sequence[str] = (), limit: int = 50
    ) -> tuple[list[TaskSummary], int]:
        """Tasks with all of the tags, of them those that have one of the words, best first; and how
        many there are without the limit.
        """
        found = self._tasks.find(words, tags, limit=sys.maxsize)
        return [_task_card(one) for one in found[:limit]], len(found)

    def task(self, id: str, version: int | None = None) -> TaskDetail:
        """Raises `UnknownTask`."""
        task = self._tasks.get(id, version)
        versions = [one.version for one in self._tasks.versions(id)]
        card = _task_card(task).model_dump()
        return TaskDetail(**card, document=task.document, versions=versions)

    async def keep_task(self, document: str, *, file: str = "task.yaml") -> TaskSummary:
        """Store a workflow as a task: a new version, unless it equals the last one.

        Raises `InvalidDocument`, also for a task without tags or with the id of another workflow.
        """
        written = read_document(document, file=file)
        workflow = self.runs.documents.workflow(written)
        self.runs.engine.plan(workflow)
        if not workflow.tags:
            raise _wrong(file, "a task is found by its `tags`, and this has none")
        known = self.runs.engine.workflows.keys() - {
            one.id for one in self._tasks.find(limit=10**6)
        }
        if workflow.id in known:
            raise _wrong(file, f"a workflow that is not a task has the id {workflow.id!r}")
        kept = await self._tasks.keep(workflow, document)
        self.runs.learn(read_document(document, file=task_file(workflow.id)))
        return _task_card(kept)

    async def remove_task(self, id: str) -> None:
        """Forget it with all its versions; raises `UnknownTask`."""
        await self._tasks.remove(id)
        self.runs.documents.remove(id)
        self.runs.engine.forget(id)

    async def variant(self, id: str, variant: Variant) -> TaskSummary:
        """Store a variant of a task; raises `UnknownTask` and `InvalidDocument`."""
        task = self._tasks.get(id)
        said: dict[str, Any] = {"kind": "workflow", "id": variant.id, "extends": id}
        said["tags"] = variant.tags or list(task.tags)
        said["about"] = variant.about or task.about
        if variant.set:
            said["set"] = variant.set
        return await self.keep_task(yaml_of(said), file=f"{variant.id}.yaml")

    def projects(self) -> list[ProjectDetail]:
        """All that the state directory holds."""
        return [self.project(id) for id in sorted(self.runs.engine.projects)]

    def project(self, id: str) -> ProjectDetail:
        """Raises `UnknownProject`."""
        if id not in self.runs.engine.projects:
            raise UnknownProject(f"There is no project {id!r}.")
        project = self.runs.engine.projects[id]
        return ProjectDetail(id=id, values=project.values, models=dict(project.roles))

    def keep_project(self, id: str, text: str) -> ProjectDetail:
        """Store a project, in the place of one that is there; raises `InvalidDocument`."""
        file = self._project_file(id)
        project = load_project(text, file=str(file))
        if project.id != id:
            raise _wrong(str(file), f"it has the id {project.id!r}, not {id!r}")
        write_atomic(file, text)
        engine = self.runs.engine
        engine.tell(engine.prompts.values(), {**engine.projects, id: project}.values())
        return self.project(id)

    def stored_text(self, kind: Literal["prompt", "project"], id: str) -> str | None:
        """Return the text of a prompt or project as it is stored; None if there is none."""
        file = self._project_file(id)
        if kind == "prompt":
            shipped = SHIPPED / "prompts" / f"{id}.md"
            file = own if (own := self._prompt_file(id)).exists() else shipped
        return file.read_text(encoding="utf-8") if file.exists() else None

    @property
    def _prompts(self) -> dict[str, Prompt]:
        return dict(self.runs.engine.prompts)

    def _tell(self, prompts: dict[str, Prompt]) -> None:
        self.runs.engine.tell(prompts.values(), self.runs.engine.projects.values())

    def _prompt_file(self, id: str) -> Path:
        return self._state / "prompts" / f"{id}.md"

    def _project_file(self, id: str) -> Path:
        """Return the file of a project; a stored one may have another name than its id."""
        for file in project_files(self._state):
            with suppress(InvalidDocument, OSError, UnicodeDecodeError):
                if load_project(file.read_text(encoding="utf-8"), file=str(file)).id == id:
                    return file
        return self._state / "projects" / f"{id}.yaml"

    def _card(self, prompt: Prompt) -> PromptSummary:
        kept = self._prompt_file(prompt.id).exists()
        return PromptSummary(id=prompt.id, tags=sorted(prompt.tags), text=prompt.text, kept=kept)


def _task_card(task: StoredTask) -> TaskSummary:
    return TaskSummary(
        id=task.id, version=task.version, at=task.at, about=task.about, tags=list(task.tags)
    )


def _wrong(file: str, told: str) -> InvalidDocument:
    return InvalidDocument([Diagnostic(file=file, line=1, column=1, message=told)])
