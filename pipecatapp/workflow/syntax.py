"""Public: what documents are made of, for editors, importers and forms."""

from pipecatapp.workflow.compiling.warnings import warnings_of
from pipecatapp.workflow.document.model import (
    RESERVED,
    ModelPart,
    Node,
    WorkflowDocument,
    seconds_of,
)
from pipecatapp.workflow.document.shapes import Shape, ShapeError, shape
from pipecatapp.workflow.document.yaml_text import Path, Source, read_yaml
from pipecatapp.workflow.layers.composing import MERGED, OWN, compose, yaml_of
from pipecatapp.workflow.layers.written import OPINIONS, Opinions, opinions_of

__all__ = [
    "MERGED",
    "OPINIONS",
    "OWN",
    "RESERVED",
    "ModelPart",
    "Node",
    "Opinions",
    "Path",
    "Shape",
    "ShapeError",
    "Source",
    "WorkflowDocument",
    "compose",
    "opinions_of",
    "read_yaml",
    "seconds_of",
    "shape",
    "warnings_of",
    "yaml_of",
]
