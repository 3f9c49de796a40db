"""The models that the expert of an instance tries: `expert.json` in its state directory."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from hearth.files import write_atomic
from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.errors import ChoiceInvalid, ModelInUse, ModelMissing
from hearth.models.store import ModelStore
from hearth.service.state import StateDir


class Choice(BaseModel):
    """The models that the expert tries, best first; the last is small enough for any machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: list[str]


def choice_file(state: StateDir) -> Path:
    """Return the path of the choice; absent until a model is selected."""
    return state.root / "expert.json"


def chosen(state: StateDir) -> list[str]:
    """Return the names to try, best first; only the fallback if no model was selected."""
    path = choice_file(state)
    try:
        return Choice.model_validate_json(path.read_bytes()).models
    except FileNotFoundError:
        return [FALLBACK]
    except ValidationError as error:
        raise ChoiceInvalid(path) from error


def with_model(name: str, state: StateDir, catalogue: Catalogue) -> Choice:
    """Return the models to try, `name` first.

    Raises `UnknownModel`, or `ModelMissing` if it is not installed.
    """
    model = catalogue[name]
    if not ModelStore(state.models).installed(model):
        raise ModelMissing(name)
    return Choice(models=list(dict.fromkeys([name, FALLBACK])))


def keep(choice: Choice, state: StateDir) -> None:
    """Write the choice for the next start of the instance."""
    write_atomic(choice_file(state), choice.model_dump_json() + "\n", mode=0o600)


def choose(name: str, state: StateDir, catalogue: Catalogue) -> Choice:
    """Make `name` the model that the next start of the instance tries first.

    Raises `UnknownModel`, or `ModelMissing` when it was not pulled.
    """
    choice = with_model(name, state, catalogue)
    keep(choice, state)
    return choice


def remove(name: str, state: StateDir, catalogue: Catalogue) -> bool:
    """Delete a model, or one of speech, with its folder; return whether there was anything.

    Raises `UnknownModel`, and `ModelInUse` for a model that the expert tries.
    """
    if name in (models := chosen(state)):
        raise ModelInUse(name, models)
    kept = catalogue.speech[name].files[0] if name in catalogue.speech else catalogue[name]
    return ModelStore(state.models).remove(kept)
