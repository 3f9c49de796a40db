"""The MCP servers that a person has set up: a file in the form that other MCP clients read, too."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipecatapp.workflow import Approve, complaints

KEY: Final = "mcpServers"
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,23}")


class McpServer(BaseModel):
    """How one server is started, and how long it may take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["stdio"] = "stdio"
    command: str = Field(min_length=1)
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Added to HOME, LOGNAME, PATH, SHELL, TERM and USER; nothing else of ours is there."""
    cwd: Path | None = None
    disabled: bool = False
    start_seconds: float = Field(default=30.0, gt=0, le=600)
    call_seconds: float = Field(default=60.0, gt=0, le=3600)
    approve: dict[str, Approve] = {}
    """When a model's call of a tool needs approval, by patterns of the server's names of tools."""


@dataclass(frozen=True)
class Configured:
    """The servers of a file by name, and what is wrong with the others: name -> reason.

    What is wrong with the file as a whole has the empty name.
    """

    file: Path
    servers: Mapping[str, McpServer]
    wrong: Mapping[str, str]


def read_servers(file: Path) -> Configured:
    """Read the file of servers; an absent file has none. An invalid entry does not affect
    others."""
    try:
        told: Any = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Configured(file, {}, {})
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        return Configured(file, {}, {"": f"{file} cannot be read: {error}"})
    entries = told.get(KEY) if isinstance(told, dict) and set(told) == {KEY} else None
    if not isinstance(entries, dict):
        reason = f"{file} has to hold one key, {KEY}, with the servers by name"
        return Configured(file, {}, {"": reason})
    servers, wrong = {}, {}
    for name, entry in entries.items():
        try:
            server = _server(str(name), entry)
        except ValueError as error:
            wrong[str(name)] = f"{file}: {error}"
        else:
            if not server.disabled:
                servers[str(name)] = server
    return Configured(file, servers, wrong)


def _server(name: str, entry: object) -> McpServer:
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a server's name is a letter, then letters, digits and '-', all small; 24 at most"
        )
    try:
        return McpServer.model_validate(entry)
    except ValidationError as error:
        raise ValueError(complaints(error)) from error
