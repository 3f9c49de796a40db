"""The MCP servers that a person has set up: a file in the form that other MCP clients read, too."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from hearth.files import write_atomic
from pipecatapp.tools.mcp.references import REFERENCE, invalid_reference
from pipecatapp.workflow import Approve, complaints

KEY: Final = "mcpServers"
HTTP_NAMES: Final = ("http", "streamable-http", "streamable_http", "streamableHttp")
"""Names of the transport in the files of other clients."""
OF_STDIO: Final = frozenset(("command", "args", "env", "cwd"))
OF_HTTP: Final = frozenset(("url", "headers"))
RESERVED: Final = frozenset(
    (
        *("accept", "accept-encoding", "connection", "content-length", "content-type", "host"),
        *("last-event-id", "mcp-protocol-version", "mcp-session-id", "transfer-encoding"),
    )
)
_URL: Final = re.compile(r"https?://[^/?#\s@]+(?:[/?#][^\s]*)?")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET: Final = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
"""Names of headers whose value must be a reference."""
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,23}")


class McpServer(BaseModel):
    """How one server is started or reached, and how long it may take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["stdio", "http"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Added to HOME, LOGNAME, PATH, SHELL, TERM and USER; nothing else of ours is there."""
    cwd: Path | None = None
    url: str = ""
    headers: dict[str, str] = {}
    """Sent with each request to `url`; secrets are references, such as `${kept:home}`."""
    disabled: bool = False
    start_seconds: float = Field(default=30.0, gt=0, le=600)
    call_seconds: float = Field(default=60.0, gt=0, le=3600)
    approve: dict[str, Approve] = {}
    """When a model's call of a tool needs approval, by patterns of the server's names of tools."""

    @property
    def shown_url(self) -> str:
        """Its address for people, without what may be a secret."""
        place = re.split(r"[?#]", self.url)[0]
        return REFERENCE.sub("…", place) if self.url else f"stdio:{self.command}"

    @model_validator(mode="before")
    @classmethod
    def _kind(cls, value: Any) -> Any:
        """An entry with a `url` is one over HTTP, and other clients have other names for it."""
        if not isinstance(value, dict):
            return value
        kind = value.get("type", "http" if "url" in value else "stdio")
        if kind == "sse":
            raise ValueError("the transport `sse` is not supported: use `http` and its url for it")
        return {**value, "type": "http" if kind in HTTP_NAMES else kind}

    @model_validator(mode="after")
    def _complete(self) -> Self:
        at_url = self.type == "http"
        other = OF_STDIO if at_url else OF_HTTP
        if needless := sorted(other & self.model_fields_set):
            raise ValueError(f"{', '.join(needless)}: not for a server of the type {self.type}")
        if at_url and not _URL.fullmatch(self.url):
            raise ValueError("url: use http:// or https:// with a host, without user and password")
        if not at_url and not self.command:
            raise ValueError("use `command` for a program, or `url` for a server over HTTP")
        self._check_values()
        return self

    def _check_values(self) -> None:
        for name, value in {"url": self.url, **self.env, **self.headers}.items():
            if (wrong := invalid_reference(value)) is not None:
                raise ValueError(
                    f"{name}: ${{{wrong}}} is not a valid reference: use ${{kept:name}}, "
                    "${env:NAME} or ${file:/path}"
                )
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name) or not value.isprintable() or not value.isascii():
                raise ValueError(f"headers: {name!r} is not a valid header")
            if name.lower() in RESERVED:
                raise ValueError(f"headers: {name!r} is set by the protocol: remove it")
            if _SECRET.search(name) and not REFERENCE.search(value):
                raise ValueError(
                    f"headers: {name} is a secret: store it with `hearth secrets set NAME`, and "
                    "write ${kept:NAME} in its place"
                )


@dataclass(frozen=True)
class Configured:
    """The servers of a file by name, and what is wrong with the others: name -> reason.

    What is wrong with the file as a whole has the empty name.
    """

    file: Path
    servers: Mapping[str, McpServer]
    wrong: Mapping[str, str]


def read_servers(file: Path, *, disabled: bool = False) -> Configured:
    """Read the file of servers; an absent file has none. An invalid entry does not affect others.
    With `disabled`, entries that are disabled are included."""
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
            if disabled or not server.disabled:
                servers[str(name)] = server
    return Configured(file, servers, wrong)


def write_server(file: Path, name: str, entry: Mapping[str, Any] | None) -> None:
    """Write an entry into the file of servers, or remove it (None); the others stay as they are.

    Raises `ValueError` for a file of another form and for one that cannot be written.
    """
    yaml = YAML()
    yaml.preserve_quotes = True
    try:
        written: Any = yaml.load(file.read_text(encoding="utf-8")) if file.exists() else None
        document = {KEY: {}} if written is None else written
        entries = document.get(KEY) if isinstance(document, dict) else None
        if not isinstance(entries, dict):
            raise ValueError(f"{file} has to hold one key, {KEY}, with the servers by name")
        if entry is None:
            entries.pop(name, None)
        else:
            entries[name] = dict(entry)
        text = StringIO()
        yaml.dump(document, text)
        write_atomic(file, text.getvalue(), mode=0o600)
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise ValueError(f"{file} cannot be changed: {error}") from error


def _server(name: str, entry: object) -> McpServer:
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a server's name is a letter, then letters, digits and '-', all small; 24 at most"
        )
    try:
        return McpServer.model_validate(entry)
    except ValidationError as error:
        raise ValueError(complaints(error).replace("Value error, ", "")) from error
