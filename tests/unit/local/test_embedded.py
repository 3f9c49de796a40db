"""What each service of the embedded mode is told."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from hearth.local.embedded import embedded_services
from hearth.local.environment import settings_of_people, with_settings_of_people
from hearth.local.expert import better_model
from hearth.local.options import Options
from hearth.local.process.service import Service
from hearth.local.speech import speech_services
from hearth.models.catalogue import Catalogue
from hearth.service.settings import SettingsError
from hearth.settings import Settings


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options.of(Settings.model_validate({"state_dir": tmp_path, "port_base": 9000}))


@pytest.fixture
def services(options: Options) -> dict[str, Service]:
    catalogue = Catalogue.load()
    return {s.name: s for s in embedded_services(options, [catalogue["smollm2"]])}


def test_instance_has_its_ports_from_its_base(services: dict[str, Service]) -> None:
    """Two instances live side by side when every port follows from one number."""
    assert {name: service.port for name, service in services.items()} == {
        "llama-expert-smollm2": 9081, "speech-stt": 9091, "speech-tts": 9092,
        "embeddings": 9093, "moe-gateway": 9080, "pipecatapp": 9000,
    }  # fmt: skip
    assert next(iter(services)) == "llama-expert-smollm2"


def test_gateway_knows_the_expert_and_asks_the_agent_for_its_models(
    services: dict[str, Service], options: Options
) -> None:
    """Facts of the catalogue and of the engine reach the one that routes by them."""
    environment = services["moe-gateway"].environment
    expert, agent, *speech, embeddings = json.loads(environment["MOE_GATEWAY_INSTANCES"])
    smollm2 = Catalogue.load()["smollm2"]

    assert expert["url"] == "http://127.0.0.1:9081"
    assert expert["expert"] == "smollm2"
    assert (expert["context"], expert["tools"]) == (smollm2.context, smollm2.tools)
    assert expert["slots"] == int(
        services["llama-expert-smollm2"].environment["LLAMA_EXPERT_SLOTS"]
    )
    assert expert["stops_unary"] is False
    assert services["moe-gateway"].ready_path == "/v1/models/agent"
    assert services["moe-gateway"].key_file == options.state.key_file
    assert agent == {
        "url": "http://127.0.0.1:9000", "key_file": str(options.state.service_key_file),
        "lists_models": True, "stops_unary": True,
    }  # fmt: skip
    assert [(one["speech"], one["url"]) for one in speech] == [
        ("stt", "http://127.0.0.1:9091"), ("tts", "http://127.0.0.1:9092"),
    ]  # fmt: skip
    assert (embeddings["expert"], embeddings["url"]) == (
        "multilingual-e5-small", "http://127.0.0.1:9093",
    )  # fmt: skip
    assert (embeddings["chat"], embeddings["embeddings"]) == (False, True)


def test_agent_knows_every_service_whose_status_it_shows(services: dict[str, Service]) -> None:
    """The status page and the tool `cluster.status` look into this directory."""
    known = json.loads(services["pipecatapp"].environment["PIPECATAPP_SERVICES"])

    assert known == {
        "pipecatapp": "http://127.0.0.1:9000",
        "moe-gateway": "http://127.0.0.1:9080",
        "llama-expert-smollm2": "http://127.0.0.1:9081",
        "speech-stt": "http://127.0.0.1:9091",
        "speech-tts": "http://127.0.0.1:9092",
        "embeddings": "http://127.0.0.1:9093",
    }


def test_speech_can_be_left_out(tmp_path: Path) -> None:
    """A small machine, or a house that is not to be listened to, starts without it."""
    settings = Settings.model_validate({"state_dir": tmp_path, "port_base": 9000})
    options = Options.of(settings, speech=False, embeddings=False)
    names = [service.name for service in embedded_services(options, [Catalogue.load()["smollm2"]])]

    assert names == ["llama-expert-smollm2", "moe-gateway", "pipecatapp"]
    assert set(options.ports.values()) == {9000, 9080, 9081}


def test_services_are_told_where_keys_are_and_never_the_keys(
    services: dict[str, Service], options: Options
) -> None:
    """Environments and command lines of processes are shown by `ps` and kept in crash reports."""
    for service in services.values():
        for name, value in service.environment.items():
            assert "sk-hearth-" not in value, name
        assert not any("key" in word for word in service.command)


def test_better_model_is_offered_with_the_commands_that_get_it(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedded model is not clever; one line leads to one that is."""
    memory = 64 * 10**9
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=memory))
    catalogue = Catalogue.load()
    small, best = catalogue["smollm2"], catalogue.best_fit(memory)
    assert best is not None
    line = better_model([small], catalogue, options)

    assert line is not None
    assert line.index(f"models pull {best.name}") < line.index(f"models use {best.name}")
    assert better_model([best], catalogue, options) is None


def test_option_overrules_the_setting_and_is_named_in_commands(tmp_path: Path) -> None:
    """A command that is printed must find the same instance when it is pasted."""
    settings = Settings.model_validate(
        {"state_dir": tmp_path / "usual", "port_base": 9000, "engine": "llama-server"}
    )
    usual = Options.of(settings)
    other = Options.of(settings, state_dir=tmp_path / "my own", port_base=9500, engine="xllamacpp")

    assert (usual.engine, usual.port_base, usual.state_option) == ("llama-server", 9000, "")
    assert (other.engine, other.port_base) == ("xllamacpp", 9500)
    assert other.state_option == f" --state-dir '{tmp_path}/my own'"
    assert other.web == "http://127.0.0.1:9500"


def told(options: Options, *lines: str) -> dict[str, str]:
    """The file of people's settings with these lines, as it is read."""
    options.state.settings_file.write_text("\n".join(lines), encoding="utf-8")
    return settings_of_people(options.state.settings_file)


def test_what_people_set_reaches_the_service_that_it_is_for(
    services: dict[str, Service], options: Options
) -> None:
    """On one machine as on a cluster: every setting can be set, and stands in one file."""
    found = told(
        options,
        "# questions about programs go to another expert",
        'MOE_GATEWAY_DOMAINS={"code": "a=b"}',
        "",
        "PIPECATAPP_MODEL_ROLES={}",
    )
    gateway, agent, expert = (
        with_settings_of_people(services[name].environment, found)
        for name in ("moe-gateway", "pipecatapp", "llama-expert-smollm2")
    )

    assert gateway == {
        **services["moe-gateway"].environment, "MOE_GATEWAY_DOMAINS": '{"code": "a=b"}'
    }  # fmt: skip
    assert agent["PIPECATAPP_MODEL_ROLES"] == "{}"
    assert expert == services["llama-expert-smollm2"].environment


def test_instance_without_such_a_file_is_as_before(options: Options) -> None:
    """Nobody has to write one."""
    assert settings_of_people(options.state.settings_file) == {}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("MOE_GATEWAY_PORT=1", "MOE_GATEWAY_PORT is set by `hearth up` itself"),
        (
            "MOE_GATWAY_DOMAINS={}",
            "line 1: write NAME=VALUE with a name that begins with MOE_GATEWAY_…",
        ),
        ("HEARTH_ENGINE=x", "line 1: write NAME=VALUE"),
        ("MOE_GATEWAY_CLASSIFIER", "line 1: write NAME=VALUE"),
    ],
)
def test_setting_that_makes_no_sense_stops_the_start(
    services: dict[str, Service], options: Options, line: str, said: str
) -> None:
    """A mistyped name that is passed over looks like a setting that does nothing."""
    with pytest.raises(SettingsError, match=re.escape(said)):
        with_settings_of_people(services["moe-gateway"].environment, told(options, line))


def test_speech_has_the_models_and_the_language_of_the_settings(tmp_path: Path) -> None:
    """Who speaks German sets it in one place, and each service is told its part."""
    chosen = {"stt_model": "whisper-base", "tts_model": "de-de-thorsten", "speech_language": "de"}
    settings = Settings.model_validate({"state_dir": tmp_path, **chosen})
    told = {s.name: s.environment for s in speech_services(Options.of(settings, speech=True))}

    assert told["speech-stt"]["SPEECH_MODEL"] == "whisper-base"
    assert told["speech-tts"]["SPEECH_MODEL"] == "de-de-thorsten"
    assert {one["SPEECH_LANGUAGE"] for one in told.values()} == {"de"}
    assert {one["MALLOC_ARENA_MAX"] for one in told.values()} == {"2"}
