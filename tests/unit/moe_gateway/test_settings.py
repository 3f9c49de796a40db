"""The gateway's settings."""

import json
from pathlib import Path

import pytest

from hearth.service.settings import SettingsError
from moe_gateway.settings import Settings

EXPERT = {
    "url": "http://127.0.0.1:8081",
    "expert": "smollm2",
    "aliases": [],
    "key_file": "/x/service_key",
    "slots": 4,
    "context": 2048,
    "tools": "none",
    "stops_unary": False,
}
AGENT = {"url": "http://127.0.0.1:8000", "key_file": "/x/service_key", "lists_models": True}


def load(monkeypatch: pytest.MonkeyPatch, *instances: dict[str, object]) -> Settings:
    monkeypatch.setenv("MOE_GATEWAY_KEY_FILES", '["/x/key"]')
    monkeypatch.setenv("MOE_GATEWAY_INSTANCES", json.dumps(instances))
    return Settings.load()


def test_instances_come_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is what `hearth up` passes."""
    settings = load(monkeypatch, EXPERT, AGENT)

    assert settings.key_files == (Path("/x/key"),)
    assert settings.instances[0].expert == "smollm2"
    assert not settings.instances[0].stops_unary
    assert settings.instances[1].lists_models


@pytest.mark.parametrize(
    "change",
    [
        {"expert": None},
        {"lists_models": True},
        {"slot": 3},
        {"url": "nowhere"},
        {"expert": "two\nlines"},
        {"slots": 0},
        {"expert": "auto"},
        {"aliases": ["fast", "auto"]},
    ],
)
def test_instance_that_makes_no_sense_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    """A gateway that starts is one that was understood."""
    with pytest.raises(SettingsError, match="MOE_GATEWAY_INSTANCES"):
        load(monkeypatch, {**EXPERT, **change})


def test_what_nobody_has_set_surprises_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No page may call, no unknown model is answered, nobody is asked what a request is about; and
    signs of life come before Node's client gives a silent stream up, after 300 s."""
    settings = load(monkeypatch)

    assert settings.cors_origins == ()
    assert (settings.default_model, settings.classifier) == (None, None)
    assert settings.keepalive_seconds < 300


def test_instances_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """One server may serve two experts, but the same one twice is a slip."""
    assert len(load(monkeypatch, EXPERT, {**EXPERT, "expert": "coder"}).instances) == 2
    with pytest.raises(SettingsError, match="the same url and the same expert"):
        load(monkeypatch, EXPERT, EXPERT)


def test_gateway_never_runs_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """An open gateway must not happen by leaving something out."""
    monkeypatch.setenv("MOE_GATEWAY_INSTANCES", "[]")

    with pytest.raises(SettingsError, match="KEY_FILES is not set"):
        Settings.load()


@pytest.mark.parametrize(
    ("listener", "reason"),
    [
        ({"port": 11434, "acts_as": "apps"}, "belong together"),
        ({"port": 11434, "addresses": ["10.0.0.0/8"]}, "belong together"),
        ({"port": 11434, "acts_as": "people", "addresses": ["10.0.0.5"]}, "hearth keys add"),
        ({"port": 11434, "acts_as": "house", "addresses": ["10.0.0.5"]}, "hearth keys add"),
        ({"port": 8080}, "same port"),
        ({"port": 0}, "greater than or equal to 1"),
        (
            {"port": 11434, "acts_as": "apps", "addresses": ["10.0.0.5/8"]},
            "not a valid IPv4 network",
        ),
    ],
)
def test_listener_that_makes_no_sense_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, listener: dict[str, object], reason: str
) -> None:
    """One that lets callers in without a key names them, and never acts as the house."""
    monkeypatch.setenv("MOE_GATEWAY_KEY_FILES", '["/x/house"]')
    monkeypatch.setenv("MOE_GATEWAY_LISTENERS", json.dumps([listener]))

    with pytest.raises(SettingsError, match=reason):
        Settings.load()
