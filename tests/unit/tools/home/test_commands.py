"""Which sentences are exact commands, and what they ask of which device."""

import pytest

from pipecatapp.tools.home.commands import Commands, closest
from pipecatapp.tools.home.entities import Entity

HOME = (
    Entity(("Kitchen Lamp", "Ceiling"), "light", ("Kitchen", "Küche")),
    Entity(("Front Door",), "lock", ("Hall",)),
    Entity(("Thermostat",), "climate", ("Hall",)),
    Entity(("Garage",), "cover", kind="garage"),
)

LAMP = {"name": "Kitchen Lamp", "domain": ["light"]}
LIGHTS = {"area": "Kitchen", "domain": ["light"]}


@pytest.fixture(scope="module")
def english() -> Commands:
    return Commands("en", HOME)


@pytest.mark.parametrize(
    ("sentence", "intent", "arguments"),
    [
        ("turn on the kitchen lamp", "HassTurnOn", LAMP),
        (
            "Please switch Ceiling off!",
            "HassTurnOff",
            LAMP,
        ),
        (
            "turn on the lights in the kitchen",
            "HassTurnOn",
            LIGHTS,
        ),
        ("unlock the front door", "HassTurnOff", {"name": "Front Door", "domain": ["lock"]}),
        ("open the garage", "HassTurnOn", {"name": "Garage", "domain": ["cover"]}),
        (
            "set kitchen lamp brightness to 50 percent",
            "HassLightSet",
            {"name": "Kitchen Lamp", "brightness": 50, "domain": ["light"]},
        ),
        (
            "set thermostat to 21 degrees",
            "HassClimateSetTemperature",
            {"name": "Thermostat", "temperature": 21, "domain": ["climate"]},
        ),
    ],
)
def test_sentence_is_a_command_with_its_device(
    english: Commands, sentence: str, intent: str, arguments: dict[str, object]
) -> None:
    """The arguments are those that Home Assistant's tools take, aliases resolved to names."""
    found = english.find(sentence)

    assert found is not None
    assert (found.intent, dict(found.arguments)) == (intent, arguments)


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "  ",
        "turn on the kitchen lamp and the oven",
        "why should I turn on the kitchen lamp",
        "turn on the bathroom lamp",
        "what is the capital of France",
        f"turn on the kitchen lamp{' and' * 60}",
    ],
)
def test_anything_else_is_left_to_the_model(english: Commands, sentence: str) -> None:
    """Half a command, a command to a device that is not there, a question about a command."""
    assert english.find(sentence) is None


@pytest.mark.parametrize(
    ("language", "sentence", "answer"),
    [
        ("en", "turn on the kitchen lamp", "Turned on the light"),
        ("de-AT", "Schalte Ceiling ein", "Licht eingeschaltet"),
        ("fr", "Allume Ceiling", "Allumé"),
    ],
)
def test_answer_is_in_the_language_of_the_home(language: str, sentence: str, answer: str) -> None:
    """The templates of the answers are Home Assistant's, too."""
    found = Commands(language, HOME).find(sentence)

    assert found is not None
    assert found.answer == answer


@pytest.mark.parametrize(
    ("language", "known"), [("de", "de"), ("pt-BR", "pt-BR"), ("en-GB", "en"), ("tlh", "en")]
)
def test_closest_language_is_used(language: str, known: str) -> None:
    """Home Assistant has languages for which there are no sentences."""
    assert closest(language) == known


def test_home_without_devices_has_no_commands() -> None:
    """Nothing is exposed at first."""
    assert Commands("en", ()).find("turn on the kitchen lamp") is None
