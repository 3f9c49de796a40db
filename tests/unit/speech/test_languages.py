"""What a model knows, and what to do where it does not."""

import json
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from hearth.models.catalogue import Catalogue
from hearth.service.settings import SettingsError
from speech.engines.choice import chosen, hearing
from speech.languages import MANY, knows, remedy
from speech.metrics import SpeechMetrics
from speech.settings import Settings


def settings(folder: Path, duty: str, model: str, language: str) -> Settings:
    return Settings.model_validate(
        {
            "duty": duty, "port": 1, "key_files": [folder / "key"], "model": model,
            "model_dir": folder, "language": language,
        }
    )  # fmt: skip


@pytest.mark.parametrize("language", ["de", "de-DE", "de_AT", "DE"])
def test_country_of_a_language_does_not_matter(language: str) -> None:
    """Browsers and phones send de-DE; the models know German."""
    assert knows("de", language)
    assert knows("de-DE", language)
    assert knows(MANY, language)
    assert not knows("en", language)


@pytest.mark.parametrize(
    ("duty", "model", "better"),
    [("stt", "moonshine-tiny-en", "whisper-base"), ("tts", "en-us-joe", "de-de-thorsten")],
)
def test_setting_names_the_weights_that_the_language_needs(
    tmp_path: Path, duty: str, model: str, better: str
) -> None:
    """Name, size, licence and the two commands: nobody has to look them up."""
    with pytest.raises(SettingsError) as refused:
        chosen(settings(tmp_path, duty, model, "de"))
    entry = Catalogue.load().speech_model(better)

    assert f"{better} ({entry.size_bytes / 1e6:.0f} MB, {entry.license})" in str(refused.value)
    assert f"hearth models pull {better}" in str(refused.value)
    assert f"SPEECH_MODEL={better}" in str(refused.value)
    assert chosen(settings(tmp_path, duty, better, "de-DE")) == entry


def test_engine_that_is_not_installed_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra; who chooses its model may not have it."""
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    metrics = SpeechMetrics(CollectorRegistry(), "stt")

    with pytest.raises(SettingsError, match=r"hearth\[whisper\]"):
        hearing(settings(tmp_path, "stt", "whisper-tiny-en", "en"), metrics)


def test_language_of_nobody_is_told() -> None:
    """No model of the catalogue speaks Klingon, and it says so."""
    models = list(Catalogue.load().speech.values())

    assert "no model for text-to-speech in 'tlh'" in remedy("tlh", "tts", models)
    assert json.dumps(remedy("fr", "tts", models)).count("fr-fr-siwis") == 3
