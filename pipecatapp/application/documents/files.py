"""Workflows and layers (`*.yaml`) and prompts (`*.md` with tags in front) from folders."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import structlog
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipecatapp.application.library.projects import load_project, project_files
from pipecatapp.application.library.promotion_records import promoted_folder, read_promotion
from pipecatapp.records.tasks import task_file
from pipecatapp.workflow import (
    Diagnostic,
    Documents,
    InvalidDocument,
    Project,
    Prompt,
    Workflow,
    Written,
    read_document,
    read_layer,
)

log = structlog.get_logger()

SHIPPED: Final = Path(str(files("pipecatapp")))
"""Holds `workflows/` and `prompts/`, as a state directory may too."""
FENCE: Final = "---"


@dataclass
class Library:
    """The documents of one instance by their id."""

    workflows: dict[str, Workflow] = field(default_factory=dict)
    documents: Documents = field(default_factory=Documents)
    prompts: dict[str, Prompt] = field(default_factory=dict)
    projects: dict[str, Project] = field(default_factory=dict)
    changed: bool = False
    """Whether a person's documents were added."""

    @classmethod
    def shipped(cls) -> "Library":
        """Return the documents that come with Hearth. Raises `InvalidDocument` if one is not
        valid."""
        library = cls()
        paths = _documents(SHIPPED / "workflows", "*.yaml")
        library._add([read_document(path.read_text("utf-8"), file=str(path)) for path in paths])
        for path in _documents(SHIPPED / "prompts", "*.md"):
            prompt = load_prompt(path.read_text(encoding="utf-8"), file=str(path))
            library.prompts[prompt.id] = prompt
        return library

    def add_folder(self, root: Path) -> None:
        """Add the documents of users below `root`; they replace shipped ones with the same id.

        An invalid document is ignored and logged with its position: one error must not affect the
        other documents or the service.
        """
        written, shipped = [], dict(self.prompts)
        for path in _documents(root / "layers", "*.yaml"):
            with told("layer_left_out", path):
                layer = read_layer(path.read_text(encoding="utf-8"), file=str(path))
                self.documents.layers[layer.id] = layer
        for path in _documents(root / "workflows", "*.yaml"):
            with told("workflow_left_out", path):
                written.append(read_document(path.read_text(encoding="utf-8"), file=str(path)))
        self._add(written, lenient=True)
        for path in _documents(root / "prompts", "*.md"):
            with told("prompt_left_out", path):
                prompt = load_prompt(path.read_text(encoding="utf-8"), file=str(path))
                self.prompts[prompt.id] = prompt
        for path in _documents(promoted_folder(root), "*.json"):
            with told("promotion_left_out", path):
                record = read_promotion(path)
                self.prompts[record.prompt] = load_prompt(
                    record.document, file=f"{record.prompt}.md"
                )
        for path in project_files(root):
            with told("project_left_out", path):
                project = load_project(path.read_text(encoding="utf-8"), file=str(path))
                self.projects[project.id] = project
        others = written or self.documents.layers or self.projects or self.prompts != shipped
        self.changed = self.changed or bool(others)

    def add_tasks(self, documents: Iterable[tuple[str, str]]) -> None:
        """Add stored tasks: each by its id, with its text."""
        written = []
        for id, text in documents:
            with told("task_left_out", Path(task_file(id))):
                written.append(read_document(text, file=task_file(id)))
        self._add(written, lenient=True)
        self.changed = self.changed or bool(written)

    def _add(self, written: Sequence[Written], *, lenient: bool = False) -> None:
        """Compose them, when all that they may extend is known."""
        for one in written:
            self.documents.add(one)
        for one in written:
            path = Path(one.source.file)
            with told("workflow_left_out", path) if lenient else nullcontext():
                workflow = self.documents.workflow(one)
                self.workflows[workflow.id] = workflow


@contextmanager
def told(event: str, path: Path) -> Iterator[None]:
    """Catch the error of an invalid document, and log its position."""
    try:
        yield
    except (InvalidDocument, OSError, UnicodeDecodeError) as error:
        log.warning(event, file=str(path), reason=str(error))


def load_prompt(text: str, *, file: str) -> Prompt:
    """Parse a prompt from Markdown: tags in the front matter, then the text for the model.

    Raises `InvalidDocument` if the front matter is missing or has other keys than `tags`.
    """
    head, _, body = text.removeprefix(f"{FENCE}\n").partition(f"\n{FENCE}\n")
    if not text.startswith(f"{FENCE}\n") or not body.strip():
        raise _wrong(file, 1, f"A prompt begins with {FENCE!r}, its tags, {FENCE!r}, then its text")
    try:
        front = _front_matter(head)
    except YAMLError as error:
        raise _wrong(file, 2, f"The front matter is not valid YAML: {error}") from error
    tags = front.get("tags") if isinstance(front, dict) else None
    if not isinstance(tags, list) or not tags or not all(isinstance(tag, str) for tag in tags):
        raise _wrong(file, 2, "The front matter needs `tags`, a list of words")
    if unknown := [key for key in front if key != "tags"]:
        raise _wrong(file, 2, f"The front matter has an unknown key {unknown[0]!r}")
    return Prompt(id=Path(file).stem, tags=frozenset(tags), text=body.strip())


@lru_cache(256)
def _front_matter(head: str) -> Any:
    """Return the value of a front matter. Nobody may change it: the same text is parsed once."""
    return YAML(typ="safe", pure=True).load(head)


def stored_prompt(state: Path, id: str) -> dict[str, Prompt]:
    """The prompt that is stored under an id, by this id: a person's, else the shipped one.

    Empty where there is neither. Raises `InvalidDocument`.
    """
    for file in (state / "prompts" / f"{id}.md", SHIPPED / "prompts" / f"{id}.md"):
        if file.exists():
            return {id: load_prompt(file.read_text(encoding="utf-8"), file=str(file))}
    return {}


def _documents(folder: Path, pattern: str) -> Iterable[Path]:
    return sorted(path for path in folder.glob(pattern) if not path.name.startswith("."))


def _wrong(file: str, line: int, message: str) -> InvalidDocument:
    return InvalidDocument([Diagnostic(file=file, line=line, column=1, message=message)])
