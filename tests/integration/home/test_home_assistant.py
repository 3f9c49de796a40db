"""The Home Assistant that the other tests use is a real one."""

import pytest

from tests.binaries.home_assistant.running import HomeAssistant
from tests.integration.home.conftest import LAMP

EXTENDED_INPUTS = ["tests/binaries/home_assistant/*", "tests/integration/home/conftest.py"]
pytestmark = [pytest.mark.extended, pytest.mark.hosts, pytest.mark.timeout(1800)]


def test_service_call_changes_the_state_of_an_entity(home: HomeAssistant) -> None:
    """A test that acts through Home Assistant proves something only if its entities react."""
    before = home.state(LAMP)

    home.ask("POST", "/api/services/light/turn_on", {"entity_id": LAMP})

    assert (before, home.state(LAMP)) == ("off", "on")
    assert home.ask("GET", "/api/config")["version"] == "2026.11.0"
