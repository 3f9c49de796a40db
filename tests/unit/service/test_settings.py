"""Settings: a misspelt name, a missing one and a wrong value are told, never ignored."""

from pathlib import Path

import pytest
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from hearth.service.settings import SettingsError, StrictSettings, read_key


class Oven(StrictSettings):
    """Settings of a service that exists only here."""

    model_config = SettingsConfigDict(env_prefix="OVEN_", frozen=True)

    degrees: int = Field(ge=0, le=300)
    fan_speed: int = 1


@pytest.fixture(autouse=True)
def degrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVEN_DEGREES", "180")


def test_environment_is_read() -> None:
    """Settings come from the environment and nowhere else."""
    assert Oven.load() == Oven(degrees=180, fan_speed=1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("OVEN_FAN_SPED", "OVEN_FAN_SPED is not a setting. Did you mean OVEN_FAN_SPEED?"),
        ("OVEN_XYZZY", "OVEN_XYZZY is not a setting."),
    ],
)
def test_unknown_name_is_refused_with_the_likely_one(
    monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    """A misspelt setting that is ignored costs an evening."""
    monkeypatch.setenv(name, "2")
    with pytest.raises(SettingsError) as caught:
        Oven.load()

    assert str(caught.value) == message


def test_names_of_others_are_none_of_our_business(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is full of other programs' variables."""
    monkeypatch.setenv("OVENS_DEGREES", "1")

    assert Oven.load().degrees == 180


def test_missing_setting_is_named_as_the_person_must_write_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name of a Python field is of no use to somebody who sets variables."""
    monkeypatch.delenv("OVEN_DEGREES")
    with pytest.raises(SettingsError, match=r"^OVEN_DEGREES is not set\.$"):
        Oven.load()


def test_value_that_does_not_fit_is_told_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service must not start with a setting it cannot follow."""
    monkeypatch.setenv("OVEN_DEGREES", "900")
    with pytest.raises(SettingsError, match=r"^OVEN_DEGREES: .*300"):
        Oven.load()


def test_settings_do_not_change_after_the_start() -> None:
    """What was read once is true for the life of the process."""
    with pytest.raises(ValueError, match="frozen"):
        Oven.load().degrees = 1


def test_key_is_read_without_its_line_end(tmp_path: Path) -> None:
    """Editors end files with a newline; a key has none."""
    (tmp_path / "key").write_text("sk-hearth-1\n", encoding="ascii")

    assert read_key(tmp_path / "key") == "sk-hearth-1"


def test_key_file_that_is_empty_or_missing_is_told(tmp_path: Path) -> None:
    """An empty key would let everybody in."""
    (tmp_path / "key").write_text("\n", encoding="ascii")
    with pytest.raises(SettingsError, match="is empty"):
        read_key(tmp_path / "key")
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is not a text file"):
        read_key(tmp_path / "key")
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        read_key(tmp_path / "missing")
