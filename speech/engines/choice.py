"""The engine of the model that the settings name, with its files."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hearth.models.catalogue import Catalogue, SpeechModel
from hearth.models.store import ModelStore
from hearth.service.settings import SettingsError
from speech.engines.hearing import Hearing
from speech.engines.piped import PipedHearing
from speech.engines.piper import Piper
from speech.engines.speaking import Speaking
from speech.engines.whisper_server import WhisperServer
from speech.languages import knows, remedy
from speech.metrics import SpeechMetrics
from speech.settings import Settings

GROWN: Final = 2
"""An engine that uses so many times the memory stated in the catalogue is replaced."""


def hearing(settings: Settings, metrics: SpeechMetrics) -> Hearing:
    """Return the speech-to-text engine of the settings.

    Raises `ModelError` for a file that is missing or not the pinned one, and `SettingsError` for an
    engine that is not installed.
    """
    model = chosen(settings)
    if model.engine == "faster-whisper" and find_spec("faster_whisper") is None:
        raise SettingsError(
            f"SPEECH_MODEL: {model.name} needs faster-whisper, which is not installed:"
            " `pip install 'hearth[whisper]'`."
        )
    files = ready(model, settings)
    most = settings.engine_bytes or GROWN * model.ram_bytes
    if model.engine == "whisper.cpp":
        return WhisperServer(
            model.name, model.language, files[0], binary=settings.whisper_server,
            threads=settings.threads, most_bytes=most, metrics=metrics,
        )  # fmt: skip
    return PipedHearing(
        model.name, model.language, model.engine, files[0].parent,
        threads=settings.threads, most_bytes=most, metrics=metrics,
    )  # fmt: skip


def speaking(settings: Settings, metrics: SpeechMetrics) -> Speaking:
    """Return the text-to-speech engine of the settings; raises the errors of `hearing`."""
    model = chosen(settings)
    voice = next(path for path in ready(model, settings) if path.suffix == ".onnx")
    most = settings.engine_bytes or GROWN * model.ram_bytes
    return Piper(model.name, model.language, voice, most_bytes=most, metrics=metrics)


def chosen(settings: Settings) -> SpeechModel:
    """Return the catalogue's entry of the model in the settings.

    Raises `UnknownModel`, and `SettingsError` if it is for another duty or another language.
    """
    catalogue = Catalogue.load(settings.catalogue)
    model = catalogue.speech_model(settings.model)
    if model.duty != settings.duty:
        raise SettingsError(f"SPEECH_MODEL: {model.name} is for {model.duty}, not {settings.duty}.")
    if settings.language is not None and not knows(model.language, settings.language):
        what = remedy(settings.language, settings.duty, list(catalogue.speech.values()))
        raise SettingsError(
            f"SPEECH_LANGUAGE: {model.name} supports only {model.language!r}. {what}"
        )
    return model


def ready(model: SpeechModel, settings: Settings) -> list[Path]:
    """Return the verified files of a model."""
    store = ModelStore(settings.model_dir)
    return [store.ready(file) for file in model.files]
