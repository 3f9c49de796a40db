"""A real Home Assistant for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.binaries.home_assistant.running import HomeAssistant, running

ENTITIES = """\
input_boolean:
  lamp: {name: Kitchen lamp backing}
  latch: {name: Front door backing}
template:
  - light:
      - name: Kitchen Lamp
        unique_id: kitchen_lamp
        state: "{{ is_state('input_boolean.lamp', 'on') }}"
        turn_on: {action: input_boolean.turn_on, target: {entity_id: input_boolean.lamp}}
        turn_off: {action: input_boolean.turn_off, target: {entity_id: input_boolean.lamp}}
  - lock:
      - name: Front Door
        unique_id: front_door
        state: "{{ is_state('input_boolean.latch', 'on') }}"
        lock: {action: input_boolean.turn_on, target: {entity_id: input_boolean.latch}}
        unlock: {action: input_boolean.turn_off, target: {entity_id: input_boolean.latch}}
"""
"""A lamp and a lock without hardware: their states are those of two switches of the program."""
LAMP = "light.kitchen_lamp"
LOCK = "lock.front_door"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeAssistant]:
    """A Home Assistant with a lamp and a lock, which assistants may see."""
    with running(tmp_path_factory.mktemp("home-assistant"), ENTITIES) as there:
        there.expose(LAMP, LOCK)
        yield there
