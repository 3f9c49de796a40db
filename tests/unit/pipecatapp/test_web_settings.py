"""Settings of the tools that request the web."""

import pytest

from hearth.service.settings import SettingsError
from pipecatapp.settings import Settings


def test_hosts_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As JSON, as all lists of settings."""
    monkeypatch.setenv("PIPECATAPP_WEB_HOSTS", '["api.example.org", "*.lan"]')
    monkeypatch.setenv("PIPECATAPP_WEB_PRIVATE", '["nas.lan:5000", "192.168.1.0/24"]')
    assert Settings.load().web_private == ["nas.lan:5000", "192.168.1.0/24"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WEB_HOSTS", '["https://example.org"]'),
        ("WEB_PRIVATE", '["*"]'),
        ("WEB_PRIVATE", '["1.2.3.4/99"]'),
        ("SEARXNG_URL", "searx.lan"),
    ],
)
def test_wrong_host_ends_the_start(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """A misspelt host would permit nothing silently, or too much."""
    monkeypatch.setenv(f"PIPECATAPP_{name}", value)
    with pytest.raises(SettingsError, match=f"PIPECATAPP_{name}"):
        Settings.load()
