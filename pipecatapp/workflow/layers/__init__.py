"""Layers: sparse overrides of a workflow, and their composition.

Priority, the highest first: layers (the last one first), the document's own overrides, the selected
variants, the fields of the document, its base. Nothing edits a document with lower priority.
"""

from pipecatapp.workflow.layers.composing import Composition, Opinion, compose, flat_text
from pipecatapp.workflow.layers.written import Layer, Written, read_layer

__all__ = [
    "Composition",
    "Layer",
    "Opinion",
    "Written",
    "compose",
    "flat_text",
    "read_layer",
]
