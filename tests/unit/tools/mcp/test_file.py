"""An entry is written into the file of MCP servers, and the rest of the file stays as it is."""

from pathlib import Path

import pytest

from pipecatapp.tools.mcp.servers import read_servers, write_server

ENTRY = {"type": "http", "url": "http://127.0.0.1:8123/api/mcp/assist"}
YAML = """\
# What we use at home.
mcpServers:
  oven:  # in the kitchen
    command: "oven"
    args: ['--hot']
"""
JSON = '{"mcpServers": {"oven": {"command": "oven"}}}'


def test_comments_and_other_entries_stay(tmp_path: Path) -> None:
    """The file belongs to a person, who has explained in it what is what."""
    file = tmp_path / "mcp.yaml"
    file.write_text(YAML)
    write_server(file, "home", ENTRY)
    written = file.read_text()
    write_server(file, "home", None)

    assert written.startswith(YAML)
    assert file.read_text() == YAML


@pytest.mark.parametrize("text", [JSON, YAML, "", None])
def test_entry_is_read_as_it_was_written(tmp_path: Path, text: str | None) -> None:
    """The file may be JSON or YAML, empty, or not there yet."""
    file = tmp_path / "mcp.yaml"
    if text is not None:
        file.write_text(text)
    write_server(file, "home", ENTRY)

    configured = read_servers(file)
    assert configured.wrong == {}
    assert configured.servers["home"].url == ENTRY["url"]
    assert set(configured.servers) == ({"home", "oven"} if text else {"home"})
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["- 1\n", "mcpServers: 3\n", "a: [\n"])
def test_file_of_another_form_is_left_alone(tmp_path: Path, text: str) -> None:
    """Nothing that a person has typed may be lost."""
    file = tmp_path / "mcp.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"mcp\.yaml"):
        write_server(file, "home", ENTRY)

    assert file.read_text() == text
