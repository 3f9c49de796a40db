"""Who may call."""

from pathlib import Path

import pytest

from hearth.service.settings import SettingsError
from moe_gateway.keys import Keyring


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"Bearer sk-a", "key"),
        (b"bearer  sk-b ", "service_key"),
        (b"Bearer sk-c", None),
        (b"Bearer ", None),
        (b"Basic sk-a", None),
        (b"sk-a", None),
        (b"", None),
    ],
)
def test_only_a_known_bearer_key_opens(header: bytes, name: str | None) -> None:
    """Everything but the whole key is nobody's."""
    keys = Keyring([("key", "sk-a"), ("service_key", "sk-b")])

    assert keys.name_of(header) == name


def test_keys_come_from_files_and_are_not_kept(tmp_path: Path) -> None:
    """A dump of the object shows no key."""
    (tmp_path / "key").write_text("sk-secret\n")
    keys = Keyring.from_files([tmp_path / "key"])

    assert keys.name_of(b"Bearer sk-secret") == "key"
    assert "sk-secret" not in repr(vars(keys))


def test_missing_key_file_is_named(tmp_path: Path) -> None:
    """The gateway never runs open because a file was not there."""
    with pytest.raises(SettingsError, match="gone"):
        Keyring.from_files([tmp_path / "gone"])
