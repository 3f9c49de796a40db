"""Join a Home Assistant in both directions, leave it, and know its devices while it is joined."""

import asyncio
import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from pydantic import BaseModel, ValidationError

from hearth.files import write_atomic
from hearth.service.settings import trusting
from pipecatapp.application.engine import Engine
from pipecatapp.application.mcp import McpService
from pipecatapp.application.people import PeopleService
from pipecatapp.application.registry import AGENT, AGENT_WORKFLOW
from pipecatapp.application.runs import Document
from pipecatapp.application.turns import asked_models
from pipecatapp.records.secrets import Secrets
from pipecatapp.settings import Settings
from pipecatapp.tools.home.assistant import (
    About,
    FlowRefused,
    HomeAssistant,
    HomeProblem,
    connected,
)
from pipecatapp.tools.home.entities import LIVE_CONTEXT, read_entities
from pipecatapp.tools.home.home import PREFIX, SERVER, Home
from pipecatapp.workflow import Context, ToolFailed

__all__ = ["AlreadyJoined", "HomeProblem", "HomeService", "HomeStatus", "Joined", "NotJoined"]

log = structlog.get_logger()

HOME_TURN: Final = "home-turn"
FILE: Final = "home.json"
SECRET: Final = "home-assistant"
"""Name of the secret that the command `join` stores, and `leave` removes."""
KEY: Final = "home-assistant"
"""Name of the key that is issued; a number follows where the name was used before."""
AGENT_INTEGRATION: Final = "llama_cpp"
SERVER_INTEGRATION: Final = "mcp_server"
ASSIST: Final = "assist"
"""Home Assistant's name of the tools that reach only what it shows to assistants."""
REFRESH_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 5.0
REASONS: Final = {
    "cannot_connect": "it cannot reach Hearth at {url}. If it runs on another machine or in a"
    " container, name the address at which Hearth can be reached there: --hearth-url",
    "invalid_auth": "Hearth refused the new key at {url}. Check that this is the address of this"
    " Hearth: --hearth-url",
    "already_configured": "it has an entry for {url} already. Remove it there under Settings,"
    " Devices & services, llama.cpp, and try again",
    "timeout": "the model did not answer it in time at {url}. Try again when the model is loaded",
    "api_error": "the model did not answer it at {url}. See `hearth logs`",
}
"""Home Assistant's reason why it does not add Hearth -> what it means for the owner of both."""


class AlreadyJoined(Exception):
    """This instance has joined a Home Assistant; leave it first."""


class NotJoined(Exception):
    """This instance has joined no Home Assistant."""


class Joined(BaseModel):
    """The parts that a join has added, and that a leave removes: the file `home.json`."""

    url: str
    name: str
    version: str
    language: str
    hearth_url: str
    """The address at which Home Assistant reaches the gateway."""
    secret: str
    key: str
    agent: str
    """Home Assistant's conversation entity of Hearth, such as `conversation.agent`."""
    agent_entry: str
    server_entry: str | None
    """The entry of its MCP server; None if it had one before."""
    since: str


class HomeStatus(BaseModel):
    """Whether both directions work now. `problem` is empty if they do."""

    joined: Joined | None = None
    devices: list[str] = []
    """The names of the devices that Home Assistant shows."""
    tools: int = 0
    problem: str = ""


class HomeService:
    """The Home Assistant of an instance."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        mcp: McpService,
        people: PeopleService,
        secrets: Secrets,
    ) -> None:
        self._settings, self._engine, self._mcp = settings, engine, mcp
        self._people, self._secrets = people, secrets
        self._file = settings.state_dir / FILE
        self._changing = asyncio.Lock()
        self._changed = asyncio.Event()
        self.home = Home(lambda: engine.tools)
        mcp.critical = self._is_critical

    def joined(self) -> Joined | None:
        """Return the record of the join; None without one. Raises `HomeProblem`."""
        try:
            return Joined.model_validate_json(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise HomeProblem(f"{self._file} cannot be read: {error}") from error

    async def status(self) -> HomeStatus:
        """Return whether a Home Assistant is joined, its devices, and what does not work."""
        joined = self.joined()
        if joined is None:
            return HomeStatus()
        problem = await self._problem(joined)
        await self.refresh()
        names = [one.names[0] for one in self.home.entities]
        return HomeStatus(joined=joined, devices=names, tools=len(self._tools()), problem=problem)

    async def join(self, url: str, secret: str, hearth_url: str = "") -> HomeStatus:
        """Connect both directions and return the result; what fails leaves nothing behind.

        Args:
            url: Address of Home Assistant, such as `http://homeassistant.local:8123`.
            secret: Name of the stored secret with a long-lived token of an administrator there.
            hearth_url: Address at which Home Assistant reaches the gateway, if not that of this
                machine: `http://192.168.1.5:8080/v1`.

        Raises:
            AlreadyJoined: Leave the present one first.
            HomeProblem: The message says what to do.
            SecretMissing: There is no secret of this name.
        """
        async with self._changing:
            if (known := self.joined()) is not None:
                raise AlreadyJoined(
                    f"Hearth has joined Home Assistant at {known.url}. Run `hearth home leave` "
                    "first."
                )
            if self._mcp.entry(SERVER):
                raise HomeProblem(
                    f"{self._settings.mcp_path} has an MCP server {SERVER!r} already. Rename or "
                    "remove it, and try again."
                )
            url, hearth_url = url.rstrip("/"), (hearth_url or self._settings.gateway).rstrip("/")
            _check_addresses(url, hearth_url)
            token = self._secrets.value(f"kept:{secret}")
            tls = trusting(self._settings.tls_ca_file)
            async with connected(url, token, tls) as there, AsyncExitStack() as undo:
                about = await _checked(there)
                joined = await self._connect(there, about, url, hearth_url, secret, undo)
                write_atomic(self._file, f"{joined.model_dump_json(indent=2)}\n", mode=0o600)
                undo.pop_all()
        self._changed.set()
        log.info("home_joined", url=url, version=about.version)
        return await self.status()

    async def leave(self, *, force: bool = False) -> list[str]:
        """Remove what `join` has made; return what was removed, as lines for a person.

        With `force` a Home Assistant that does not answer is left as it is. Raises `NotJoined`,
        and `HomeProblem` if something cannot be removed.
        """
        async with self._changing:
            joined = self.joined()
            if joined is None:
                raise NotJoined("Hearth has joined no Home Assistant.")
            await self._people.keys()  # Without a gateway, nothing is removed from either.
            done = []
            try:
                done += await self._remove_entries(joined)
            except HomeProblem as error:
                if not force:
                    raise HomeProblem(
                        f"{error} `hearth home leave --force` removes only what Hearth has stored."
                    ) from error
                done.append(f"Nothing was removed from Home Assistant. {error}")
            await self._revoke(joined.key)
            done.append(f"The key {joined.key} is revoked.")
            await self._mcp_change(None)
            done.append(f"The MCP server {SERVER} is removed.")
            if joined.secret == SECRET and SECRET in self._secrets.names():
                self._secrets.remove(SECRET)
                done.append(f"The secret {SECRET} is removed.")
            self._file.unlink(missing_ok=True)
            self.home.forget()
        log.info("home_left", url=joined.url)
        return done

    async def keep_fresh(self) -> None:
        """Read the names and states of the devices again each minute, while a home is joined."""
        while True:
            known = False
            try:
                known = await self.refresh()
            except HomeProblem as error:
                log.warning("home_unreadable", reason=str(error))
            self._changed.clear()
            with suppress(TimeoutError):
                pause = REFRESH_SECONDS if known or not self._file.exists() else RETRY_SECONDS
                await asyncio.wait_for(self._changed.wait(), pause)

    async def refresh(self) -> bool:
        """Read the devices; return whether that was possible. Raises `HomeProblem`."""
        joined = self.joined()
        reader = next((tool for tool in self._tools() if tool.endswith(LIVE_CONTEXT)), None)
        if joined is None or reader is None:
            return False
        try:
            answer = await self._engine.tools[reader].check(Context(), {})
            entities = read_entities(answer)
        except ToolFailed as error:
            # It also refuses if it shows no device.
            log.info("home_devices_unknown", reason=str(error)[:300])
            entities = []
        await asyncio.to_thread(self.home.learn, joined.language, entities)
        return True

    def turn(
        self, document: Document, inputs: Mapping[str, Any], text: str, *, plain: bool = True
    ) -> tuple[Document, dict[str, Any]]:
        """Return the run that answers a person who has asked the agent, and its inputs.

        An exact command runs `home-turn`. For any other sentence the agent also receives the
        devices that it may be about. `plain`: the message is only text.
        """
        if document.workflow != AGENT_WORKFLOW:
            return document, dict(inputs)
        if plain and self.home.command(text) is not None:
            return Document(workflow=HOME_TURN), {"text": text}
        context, messages = self.home.context(text), inputs.get("messages")
        if not context:
            return document, dict(inputs)
        if messages:
            return document, {**inputs, "messages": _with_context(messages, context)}
        return document, {**inputs, "context": context}

    def _is_critical(self, server: str, given: Mapping[str, Any]) -> bool:
        """Whether a call may reach a lock, an alarm, a valve or a door of the home."""
        return server == SERVER and self._file.exists() and self.home.is_critical(given)

    def _tools(self) -> list[str]:
        return [name for name in self._engine.tools if name.startswith(PREFIX)]

    async def _connect(
        self,
        there: HomeAssistant,
        about: About,
        url: str,
        hearth_url: str,
        secret: str,
        undo: AsyncExitStack,
    ) -> Joined:
        """Connect both directions; `undo` receives the call that removes each part."""
        name, key = await self._issue()
        undo.push_async_callback(_undo, self._revoke, name)
        before = await there.states("conversation")
        agent_entry = await _add_agent(there, hearth_url, key)
        undo.push_async_callback(_undo, there.remove, agent_entry)
        self._check_use(name, hearth_url)
        agent = next(iter((await there.states("conversation")).keys() - before.keys()), "")
        server_entry = await _add_server(there)
        if server_entry is not None:
            undo.push_async_callback(_undo, there.remove, server_entry)
        undo.push_async_callback(_undo, self._mcp_change, None)
        await self._add_home(url, secret)
        return Joined(
            url=url,
            name=about.name,
            version=about.version,
            language=about.language,
            hearth_url=hearth_url,
            secret=secret,
            key=name,
            agent=agent,
            agent_entry=agent_entry,
            server_entry=server_entry,
            since=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    async def _issue(self) -> tuple[str, str]:
        """Issue a key for the agent and its models; return its name and the key."""
        status, body = await self._people.keys()
        used = {row["name"] for row in body["keys"]} if status == 200 else set()
        name = next(
            one for one in (KEY, *(f"{KEY}-{n}" for n in range(2, 10_000))) if one not in used
        )
        models = list(dict.fromkeys([AGENT, *asked_models(self._engine, AGENT_WORKFLOW)]))
        wanted = {"name": name, "models": models, "scopes": ["chat", "workflows"]}
        status, body = await self._people.add(wanted)
        if status >= 300:
            raise HomeProblem(f"No key was issued: {_message(body)}")
        key: str = body["key"]
        return name, key

    async def _revoke(self, name: str) -> None:
        status, body = await self._people.revoke(name)
        if status >= 300 and status != 404:
            raise HomeProblem(f"The key {name} was not revoked: {_message(body)}")

    def _check_use(self, key: str, hearth_url: str) -> None:
        """Check that the requests of Home Assistant have reached this agent with the key."""
        used = self._engine.ledger.read.rows("SELECT 1 FROM run WHERE owner = ? LIMIT 1", (key,))
        if not used:
            raise HomeProblem(
                f"Home Assistant reached another server than this Hearth at {hearth_url}. Name the "
                "address of this one: --hearth-url."
            )

    async def _add_home(self, url: str, secret: str) -> None:
        """Add Home Assistant to the MCP servers and check that its tools are there."""
        row = await self._mcp_change(
            {
                "type": "http",
                "url": f"{url}/api/mcp/{ASSIST}",
                "headers": {"Authorization": f"Bearer ${{kept:{secret}}}"},
            }
        )
        if row is None or not row.healthy or not self._tools():
            reason = "it has no tools" if row is None or row.healthy else row.detail
            raise HomeProblem(f"Hearth cannot use the tools of Home Assistant: {reason}.")

    async def _mcp_change(self, entry: dict[str, Any] | None) -> Any:
        try:
            return await self._mcp.change(SERVER, entry)
        except ValueError as error:
            raise HomeProblem(str(error)) from error

    async def _remove_entries(self, joined: Joined) -> list[str]:
        token = self._secrets.value(f"kept:{joined.secret}")
        done = []
        async with connected(joined.url, token, trusting(self._settings.tls_ca_file)) as there:
            for title, entry in (
                ("conversation agent of Hearth", joined.agent_entry),
                ("MCP server of Home Assistant", joined.server_entry),
            ):
                if entry is not None:
                    removed = await there.remove(entry)
                    done.append(f"The {title} {'is' if removed else 'was already'} removed.")
        return done

    async def _problem(self, joined: Joined) -> str:
        """Return what does not work; empty if nothing."""
        row = next((one for one in self._mcp.health() if one.name == f"mcp/{SERVER}"), None)
        if row is None or not row.healthy:
            reason = row.detail if row is not None else "its entry is missing in mcp.yaml"
            return f"Hearth cannot use the tools of Home Assistant: {reason}."
        try:
            token = self._secrets.value(f"kept:{joined.secret}")
            async with connected(joined.url, token, trusting(self._settings.tls_ca_file)) as there:
                entries = await there.entries(AGENT_INTEGRATION)
        except (HomeProblem, LookupError) as error:
            return str(error)
        state = next((e["state"] for e in entries if e["entry_id"] == joined.agent_entry), "")
        if state != "loaded":
            return f"Home Assistant cannot use Hearth: its entry is {state or 'removed'}."
        return ""


def _with_context(messages: Sequence[Mapping[str, Any]], context: str) -> list[Any]:
    """Return messages with a text at the end of the last one, if that is the user's.

    It is not a separate message: many chat templates demand that the roles alternate.
    """
    *before, last = messages
    content = last.get("content")
    if last.get("role") != "user" or not isinstance(content, str | list):
        return list(messages)
    if isinstance(content, str):
        return [*before, {**last, "content": f"{content}\n\n{context}"}]
    return [*before, {**last, "content": [*content, {"type": "text", "text": context}]}]


async def _undo(remove: Callable[..., Awaitable[object]], *arguments: object) -> None:
    """Remove a part of a join that has failed; the error that is reported is that of the join."""
    try:
        await remove(*arguments)
    except HomeProblem as error:
        log.warning("home_not_undone", reason=str(error))


async def _checked(there: HomeAssistant) -> About:
    """Check that a Home Assistant can be joined. Raises `HomeProblem`."""
    about = await there.about()
    missing = {AGENT_INTEGRATION, SERVER_INTEGRATION} - await there.integrations()
    if missing:
        raise HomeProblem(
            f"Home Assistant {about.version} has no integration {', '.join(sorted(missing))}. "
            "Update it, and try again."
        )
    return about


async def _add_agent(there: HomeAssistant, hearth_url: str, key: str) -> str:
    """Add Hearth as a conversation agent. Home Assistant calls the model twice to check it."""
    steps = ({"base_url": hearth_url, "api_key": key}, {"chat_model": AGENT})
    try:
        return await there.add(AGENT_INTEGRATION, *steps)
    except FlowRefused as error:
        reason = REASONS.get(error.reason, f"its reason is {error.reason!r}")
        fact = f"Home Assistant does not add Hearth: {reason.format(url=hearth_url)}."
        raise HomeProblem(fact) from error


async def _add_server(there: HomeAssistant) -> str | None:
    """Add the MCP server and limit it to what is shown to assistants; None if there is one."""
    if await there.entries(SERVER_INTEGRATION):
        return None
    entry = await there.add(SERVER_INTEGRATION, {})
    await there.set_options(
        entry,
        {
            "all_llm_apis": False,
            "llm_hass_api": [ASSIST],
            "require_admin": True,
            "read_only": False,
        },
    )
    return entry


def _check_addresses(url: str, hearth_url: str) -> None:
    """Raise `HomeProblem` for an address that cannot work."""
    for address in (url, hearth_url):
        if not re.fullmatch(r"https?://[^/?#\s@]+(/[^?#\s]*)?", address):
            raise HomeProblem(
                f"{address!r} is not a valid address: use http:// or https://, a host and a port, "
                "such as http://homeassistant.local:8123."
            )
    if _is_loopback(hearth_url) and not _is_loopback(url):
        raise HomeProblem(
            f"Home Assistant at {url} is on another machine, where {hearth_url} is not this Hearth."
            " Let the gateway listen in your network, and name its address: --hearth-url "
            "http://ADDRESS:8080/v1."
        )


def _is_loopback(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _message(body: Any) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    return str(error.get("message")) if isinstance(error, dict) else "the gateway gives no reason"
