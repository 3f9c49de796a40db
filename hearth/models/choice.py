"""Which models the expert of an instance shall run: `expert.json` in its state directory."""

from pathlib import Path
from tempfile import NamedTemporaryFile

from pydantic import BaseModel, ConfigDict, ValidationError

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.errors import ChoiceInvalid, ModelMissing
from hearth.models.store import ModelStore
from hearth.service.state import StateDir


class Choice(BaseModel):
    """The models that the expert tries, best first; the last is small enough for any machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: list[str]


def choice_file(state: StateDir) -> Path:
    """Absent as long as nobody has chosen."""
    return state.root / "expert.json"


def chosen(state: StateDir) -> list[str]:
    """The names to try, best first; only the fallback when nobody has chosen."""
    path = choice_file(state)
    try:
        return Choice.model_validate_json(path.read_bytes()).models
    except FileNotFoundError:
        return [FALLBACK]
    except ValidationError as error:
        raise ChoiceInvalid(path) from error


def choose(name: str, state: StateDir, catalogue: Catalogue) -> Choice:
    """Make `name` the model that the next start of the instance tries first.

    Raises `UnknownModel`, or `ModelMissing` when it was not pulled.
    """
    model = catalogue[name]
    if not ModelStore(state.models).installed(model):
        raise ModelMissing(name)
    choice = Choice(models=list(dict.fromkeys([name, FALLBACK])))
    state.root.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=state.root, prefix="expert.", delete=False) as file:
        file.write(choice.model_dump_json() + "\n")
    Path(file.name).replace(choice_file(state))
    return choice
