"""Layers: sparse opinions on a workflow, and the workflow that comes of them all.

Strength, the strongest first: layers (the last one named first), the document's own opinions, the
variants that are selected, what the document states, what it extends. Nothing edits a weaker one.
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
