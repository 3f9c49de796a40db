"""Speech-to-text and text-to-speech in the embedded mode: models, services and registration."""

import json
import sys
from typing import Final

import psutil
from rich.console import Console

from hearth.local.environment import child_environment, command_name
from hearth.local.options import Options
from hearth.local.process.service import Service
from hearth.models.catalogue import Catalogue, SpeechModel
from hearth.models.errors import FetchFailed, ModelMissing
from hearth.models.progress_bar import Bar
from hearth.models.pull import pull_speech
from hearth.models.store import ModelStore
from hearth.service.names import SPEECH_STT, SPEECH_TTS, port_of

MODELS: Final = {SPEECH_STT: "moonshine-tiny-en", SPEECH_TTS: "en-us-joe"}
"""The default models."""

ROOMY_BYTES: Final = 3_000_000_000
"""With less memory, expert, agent and speech leave little for other programs."""

START_SECONDS: Final = 180.0


def speech_services(options: Options) -> list[Service]:
    """Return the services for speech-to-text and text-to-speech; none if speech is disabled."""
    if not options.speech:
        return []
    return [_service(options, SPEECH_STT, "stt"), _service(options, SPEECH_TTS, "tts")]


def speech_urls(options: Options) -> dict[str, str]:
    """Return the URLs of the speech services by name."""
    return {service.name: service.url for service in speech_services(options)}


def speech_instances(options: Options) -> list[dict[str, str]]:
    """Return the speech services as instances of the gateway."""
    return [
        {
            "url": service.url,
            "speech": service.environment["SPEECH_DUTY"],
            "key_file": str(options.state.service_key_file),
        }
        for service in speech_services(options)
    ]


def ready_speech(options: Options, console: Console) -> None:
    """Download missing models of speech. Raises the errors of `hearth.models.errors`."""
    if not options.speech:
        return
    catalogue, store = Catalogue.load(options.catalogue), ModelStore(options.state.models)
    for name in options.speech_models.values():
        model = catalogue.speech_model(name)
        if not _is_ready(model, store):
            with Bar(name, console) as bar:
                _pull(model, store, bar)


def little_memory(options: Options) -> str | None:
    """Return a hint if speech needs much of this machine's memory; None if not, or without it."""
    memory = psutil.virtual_memory().total
    if not options.speech or memory >= ROOMY_BYTES:
        return None
    catalogue = Catalogue.load(options.catalogue)
    needed = sum(catalogue.speech_model(name).ram_bytes for name in options.speech_models.values())
    return (
        f"Speech uses {needed / 1e9:.1f} GB of this machine's {memory / 1e9:.1f} GB of memory."
        f" Start without it: `{command_name()} up --no-speech{options.state_option}`."
    )


def _is_ready(model: SpeechModel, store: ModelStore) -> bool:
    """Return whether all files are present. Damaged files raise an error with the remedy."""
    try:
        for file in model.files:
            store.ready(file)
    except ModelMissing:
        return False
    return True


def _pull(model: SpeechModel, store: ModelStore, bar: Bar) -> None:
    try:
        pull_speech(model, store, bar)
    except FetchFailed as error:
        hint = f"{error.hint} To start without speech, use `--no-speech`."
        raise type(error)(error.fact, hint.strip()) from error


def _service(options: Options, name: str, duty: str) -> Service:
    state = options.state
    environment = {
        "SPEECH_DUTY": duty,
        "SPEECH_HOST": "127.0.0.1",
        "SPEECH_PORT": str(port_of(name, options.port_base)),
        "SPEECH_KEY_FILES": json.dumps([str(state.service_key_file), str(state.key_file)]),
        "SPEECH_MODEL": options.speech_models[name],
        "SPEECH_MODEL_DIR": str(state.models),
        # The heap of an ended thread is not freed; with one per thread, memory grows by session.
        "MALLOC_ARENA_MAX": "2",
    }
    if options.speech_language:
        environment["SPEECH_LANGUAGE"] = options.speech_language
    return Service(
        name=name,
        command=(sys.executable, "-P", "-m", "speech"),
        port=port_of(name, options.port_base),
        environment=child_environment(environment),
        start_seconds=START_SECONDS,
    )
