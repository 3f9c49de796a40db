"""The engine that the settings name, with its files."""

from hearth.models.catalogue import Catalogue, SpeechModel
from hearth.models.store import ModelStore
from hearth.service.settings import SettingsError
from speech.engines.hearing import Hearing
from speech.engines.moonshine import Moonshine
from speech.engines.piper import Piper
from speech.engines.speaking import Speaking
from speech.settings import Settings


def hearing(settings: Settings) -> Hearing:
    """What hears. Raises `ModelError` for a file that is missing or not the pinned one."""
    model, store = chosen(settings), ModelStore(settings.model_dir)
    for file in model.files:
        store.ready(file)
    return Moonshine(model.name, model.language, store.folder(model.files[0]))


def speaking(settings: Settings) -> Speaking:
    """What speaks; raises as `hearing` does."""
    model, store = chosen(settings), ModelStore(settings.model_dir)
    paths = [store.ready(file) for file in model.files]
    return Piper(model.name, model.language, next(p for p in paths if p.suffix == ".onnx"))


def chosen(settings: Settings) -> SpeechModel:
    """The catalogue's entry. Raises `UnknownModel`, and `SettingsError` for one of another duty."""
    model = Catalogue.load(settings.catalogue).speech_model(settings.model)
    if model.duty != settings.duty:
        raise SettingsError(f"SPEECH_MODEL: {model.name} is for {model.duty}, not {settings.duty}.")
    return model
