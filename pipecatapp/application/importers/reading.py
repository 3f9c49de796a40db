"""Detect the format of an old file, and parse it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pipecatapp.application.importers.connections import Connections
from pipecatapp.application.importers.imported import ImportDraft, id_of
from pipecatapp.application.importers.pipelines import Pipeline
from pipecatapp.workflow import InvalidDocument
from pipecatapp.workflow.syntax import read_yaml

FORMATS: Final = "a list `pipeline:` of OrchestrAI, or `nodes:` with connections"


def import_document(
    text: str,
    *,
    file: str,
    name: str = "",
    models: Mapping[str, str] | None = None,
    prompts: Iterable[str] = (),
) -> ImportDraft:
    """Convert an old file to a workflow, with a list of the parts that cannot be converted.

    `models` maps models of the old file to roles, `prompts` are the tags of prompts here. Raises
    `InvalidDocument` for an unknown format.
    """
    value, source = read_yaml(text, file=file)
    pipeline = value.get("pipeline") if isinstance(value, dict) else None
    nodes = value.get("nodes") if isinstance(value, dict) else None
    head = {"kind": "workflow", "id": name or id_of(Path(file).stem)}
    imported = ImportDraft(source, dict(models or {}), frozenset(prompts), head)
    if isinstance(pipeline, list) and pipeline:
        Pipeline(imported, pipeline).read()
    elif isinstance(nodes, list) and nodes:
        Connections(imported, nodes).read()
    else:
        raise InvalidDocument([source.diagnostic((), f"no file to import: it has not {FORMATS}")])
    for key in value.keys() - {"pipeline", "nodes"}:
        imported.say((key,), f"`{key}` has no meaning here", key=True)
    if not imported.document["graph"]:
        raise InvalidDocument(
            [*imported.left_out, source.diagnostic((), "nothing of it can be imported")]
        )
    return imported
