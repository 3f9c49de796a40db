"""The rows of `hearth models list`: properties of each model, its state and whether it fits."""

from typing import Any

import psutil

from hearth.models.catalogue import Model, SpeechModel
from hearth.models.choice import chosen
from hearth.models.evaluation import evaluations
from hearth.models.store import ModelStore
from hearth.service.state import StateDir


def row_of(model: Model, state: StateDir) -> dict[str, Any]:
    """Return the row of a model: its catalogue entry, its last `evaluation`, and whether it is
    `installed`, `fits` this machine and is `in_use`.
    """
    facts = model.model_dump(mode="json", exclude={"source", "sha256", "chat_template"})
    evaluation = evaluations(state).get(model.name)
    return {
        **facts,
        "evaluation": evaluation and evaluation.model_dump(mode="json"),
        "installed": ModelStore(state.models).installed(model),
        "fits": model.fits(psutil.virtual_memory().total),
        "in_use": model.name == chosen(state)[0],
    }


def speech_row_of(model: SpeechModel, state: StateDir) -> dict[str, Any]:
    """Return the row of a speech model: its catalogue entry, and whether it is `installed`."""
    facts = model.model_dump(mode="json", exclude={"source", "files"})
    store = ModelStore(state.models)
    installed = all(store.installed(file) for file in model.files)
    return {**facts, "size_bytes": model.size_bytes, "installed": installed}
