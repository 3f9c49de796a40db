"""The models that the expert of an instance tries, and the download of missing ones."""

from collections.abc import Sequence

import psutil
from rich.console import Console

from hearth.local.environment import command_name
from hearth.local.options import Options
from hearth.models.catalogue import Catalogue, Model, count
from hearth.models.choice import chosen
from hearth.models.errors import ModelMissing
from hearth.models.progress_bar import Bar
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from hearth.service.state import StateDir


def ready_models(state: StateDir, catalogue: Catalogue, console: Console) -> list[Model]:
    """Return the models that the expert tries, best first; download missing ones.

    Raises the errors of `hearth.models.errors`. A damaged file is not replaced
    automatically: it may be the first sign of a failing disk, so the error names the remedy.
    """
    store = ModelStore(state.models)
    models = [catalogue[name] for name in chosen(state)]
    for model in models:
        try:
            store.ready(model)
        except ModelMissing:
            with Bar(model.name, console) as bar:
                pull(model, store, bar)
    return models


def better_model(models: Sequence[Model], catalogue: Catalogue, options: Options) -> str | None:
    """Return a hint about the best model that fits this machine; None if it is in use already."""
    memory = psutil.virtual_memory().total
    best = catalogue.best_fit(memory)
    current = models[0]
    if best is None or count(best.parameters) <= count(current.parameters):
        return None
    command, where = command_name(), options.state_option
    steps = [f"{command} models use {best.name}{where}"]
    if not ModelStore(options.state.models).installed(best):
        steps.insert(0, f"{command} models pull {best.name}{where}")
    return (
        f"{current.name} ({current.parameters}) is small; {best.name} ({best.parameters}) fits "
        f"the {memory / 1e9:.0f} GB of this machine: `{' && '.join(steps)}`."
    )
