"""The devices that Home Assistant lists, and which of them a person approves each time."""

import json
from typing import Any

import pytest

from pipecatapp.tools.home.entities import Entity, is_critical, nearest, read_entities
from pipecatapp.workflow import ToolFailed

LISTED = """\
Live Context: An overview of the areas and the devices in this smart home:
- names: Lamp, Light over the table
  domain: light
  state: 'off'
  areas: Kitchen, Küche
- names: Garage
  domain: cover
  state: closed
  attributes:
    device_class: garage
"""
LOCK = Entity(("Haustür",), "lock", ("Flur",))
LAMP = Entity(("Lampe",), "light", ("Flur",))
GARAGE = Entity(("Garage",), "cover", kind="garage")
BLIND = Entity(("Rollo",), "cover", ("Bad",), kind="shutter")


def answer(text: str) -> dict[str, Any]:
    """The answer of Home Assistant's tool as an MCP tool gives it."""
    return {"text": json.dumps({"result": text}), "data": None}


def test_devices_are_read_from_the_text_of_the_tool() -> None:
    """The tool is made for models: its answer is YAML in a text in JSON."""
    assert read_entities(answer(LISTED)) == [
        Entity(("Lamp", "Light over the table"), "light", ("Kitchen", "Küche"), "off"),
        Entity(("Garage",), "cover", (), "closed", "garage"),
    ]


@pytest.mark.parametrize("text", ["x\n- {}", "x\n- 3", "x\n: [", "x\nnames: a"])
def test_answer_of_another_form_is_an_error(text: str) -> None:
    """Another version of Home Assistant may list them in another way."""
    with pytest.raises(ToolFailed, match="The list of devices cannot be read"):
        read_entities(answer(text))


@pytest.mark.parametrize(
    ("arguments", "critical"),
    [
        ({"name": "haustür"}, True),
        ({"name": "Lampe"}, False),
        ({"name": "Haustür", "domain": ["light"]}, False),
        ({"area": "Flur"}, True),
        ({"area": "Flur", "domain": ["light"]}, False),
        ({"domain": ["lock"]}, True),
        ({"floor": "1"}, True),
        ({"device_class": ["garage"]}, True),
        ({"device_class": ["shutter"]}, False),
        ({"area": "Bad"}, False),
        ({"message": "Haustür"}, False),
    ],
)
def test_call_is_critical_if_it_may_reach_a_lock_or_a_door(
    arguments: dict[str, Any],
    critical: bool,  # noqa: FBT001
) -> None:
    """Turning off all of an area unlocks its lock, though nobody has named it."""
    assert is_critical(arguments, [LOCK, LAMP, GARAGE, BLIND]) is critical


@pytest.mark.parametrize(
    ("sentence", "names"),
    [
        ("Sind die Lampen an?", ["Lampe"]),
        ("Im Flur wird es dunkel", ["Haustür", "Lampe"]),
        ("Wie warm wird das Bad?", ["Rollo"]),
        ("Schau nach dem Garagentor", ["Garage"]),
        ("Who was the first man on the moon?", []),
        ("", []),
    ],
)
def test_sentence_is_about_the_devices_that_its_words_name(sentence: str, names: list[str]) -> None:
    """A model reads ten devices and not a hundred, and none where a sentence is about none."""
    assert [one.names[0] for one in nearest(sentence, [LOCK, LAMP, GARAGE, BLIND])] == names


def test_at_most_ten_devices_are_named() -> None:
    """All lamps of a house would fill the context of a small model."""
    lamps = [Entity((f"Lamp {number}",), "light") for number in range(30)]

    assert len(nearest("Which lamp is on?", lamps)) == 10
