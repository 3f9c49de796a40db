"""What Consul knows of the services, followed as it changes, by blocking queries.

How an index is to be treated: https://developer.hashicorp.com/consul/api-docs/features/blocking.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

import httpx2
import structlog

from hearth.service.settings import trusting

log = structlog.get_logger()

WAIT_SECONDS: Final = 30.0
"""How long Consul may hold a question when nothing changes; it adds up to a sixteenth."""

GRACE_SECONDS: Final = 5.0
"""How much later than that an answer may come before its connection counts as dead."""

FIRST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 5.0
"""Seconds between two tries while Consul is away: doubled from the first to the longest."""

CALM_SECONDS: Final = 0.1
"""Two answers on one thing come no faster, however often Consul's index moves."""

CATALOGUE: Final = "/v1/catalog/services"

State = Literal["passing", "warning", "critical"]
WORST_FIRST: Final[tuple[State, ...]] = ("critical", "warning", "passing")


class ConsulAway(Exception):
    """Is the Consul agent running, its address right, and may the token read services?"""


@dataclass(frozen=True)
class ConsulAgent:
    """How to reach the Consul agent of this machine; the token is read again for each question."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None

    def client(self) -> httpx2.AsyncClient:
        """A client without a limit of connections: each thing that is followed holds one."""
        return httpx2.AsyncClient(
            base_url=self.url.rstrip("/"),
            timeout=httpx2.Timeout(WAIT_SECONDS * 17 / 16 + GRACE_SECONDS, connect=3.0),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
            verify=trusting(self.ca_file),
            trust_env=False,
        )

    def headers(self) -> dict[str, str]:
        """Raises `ConsulAway` when the token's file cannot be read."""
        if self.token_file is None:
            return {}
        try:
            return {"x-consul-token": self.token_file.read_text(encoding="ascii").strip()}
        except (OSError, UnicodeDecodeError) as error:
            raise ConsulAway(f"the token file {self.token_file} cannot be read") from error


@dataclass(frozen=True)
class ServiceInstance:
    """One instance of a service, and how Consul judges it: by the worst of its checks."""

    service: str
    id: str
    node: str
    node_address: str
    address: str
    port: int
    tags: tuple[str, ...]
    meta: Mapping[str, str]
    state: State
    reason: str
    """What the checks say that do not pass; empty when all do."""

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Self:
        """From one entry of `/v1/health/service/<name>`."""
        node, service, checks = entry["Node"], entry["Service"], entry["Checks"]
        states = {check["Status"] for check in checks}
        ill = [check for check in checks if check["Status"] != "passing"]
        return cls(
            service=service["Service"],
            id=service["ID"],
            node=node["Node"],
            node_address=node["Address"],
            address=service["Address"] or node["Address"],
            port=service["Port"],
            tags=tuple(service["Tags"] or ()),
            meta=dict(service["Meta"] or {}),
            state=worst(states),
            reason="; ".join(_words(check) for check in ill),
        )


Services = Mapping[str, Sequence[ServiceInstance]]


class ServiceWatch:
    """Follows every service whose name is wanted; `run` until cancelled.

    `changed` is called with all that is known as soon as something differs, `away` included: while
    Consul is away the last known set stays, `away` says why, and the log has a line for each way.
    """

    def __init__(
        self,
        agent: ConsulAgent,
        *,
        wanted: Callable[[str], bool],
        changed: Callable[[Services], None],
    ) -> None:
        self.agent, self._wanted, self._changed = agent, wanted, changed
        self.services: dict[str, tuple[ServiceInstance, ...]] = {}
        self.away: str | None = "Consul has not been asked yet"

    async def run(self) -> None:
        """Follow the list of services, and each of them; never returns by itself."""
        following: dict[str, asyncio.Task[None]] = {}
        async with self.agent.client() as http, asyncio.TaskGroup() as group:
            async for listed in self._follow(http, CATALOGUE):
                names = {name for name in listed if self._wanted(name)}
                for name in (following.keys() | self.services.keys()) - names:
                    if gone := following.pop(name, None):
                        gone.cancel()
                    self._forget(name)
                for name in sorted(names - following.keys()):
                    following[name] = group.create_task(self._service(http, name))

    async def _service(self, http: httpx2.AsyncClient, name: str) -> None:
        async for entries in self._follow(http, f"/v1/health/service/{name}"):
            found = tuple(ServiceInstance.of(entry) for entry in entries)
            if found != self.services.get(name):
                self.services[name] = found
                self._changed(self.services)

    def _forget(self, name: str) -> None:
        if self.services.pop(name, None):
            self._changed(self.services)

    async def _follow(self, http: httpx2.AsyncClient, path: str) -> AsyncIterator[Any]:
        """What Consul answers at `path`: now, then whenever its index has moved."""
        index, pause, loop = 0, FIRST_PAUSE, asyncio.get_running_loop()
        while True:
            asked_at = loop.time()
            try:
                found, told = await self._ask(http, path, index)
            except ConsulAway as error:
                self._lost(str(error))
                index = 0
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            self._back()
            pause, before = FIRST_PAUSE, index
            index = next_index(index, told)
            if index != before:
                yield found
            await asyncio.sleep(asked_at + CALM_SECONDS - loop.time())

    async def _ask(self, http: httpx2.AsyncClient, path: str, index: int) -> tuple[Any, str]:
        """The answer and its index. Raises `ConsulAway`."""
        query = {"index": str(index), "wait": f"{WAIT_SECONDS:g}s"} if index else {}
        try:
            answer = await http.get(path, params=query, headers=self.agent.headers())
            found = answer.json() if answer.is_success else None
        except (httpx2.TransportError, ValueError) as error:
            raise ConsulAway(str(error) or type(error).__name__) from error
        if found is None:
            raise ConsulAway(f"HTTP {answer.status_code}: {answer.text.strip()[:200]}")
        # Who may not read gets no error but an empty list; Consul itself is in a whole one.
        if path == CATALOGUE and not found:
            raise ConsulAway("it lists no service, not even its own: the token may not read them")
        return found, answer.headers.get("x-consul-index", "")

    def _lost(self, reason: str) -> None:
        if self.away is None:
            log.warning("consul_away", url=self.agent.url, reason=reason, kept=len(self.services))
        elif self.away != reason and not self.services:
            log.warning("consul_not_reached_yet", url=self.agent.url, reason=reason)
        self._say(reason)

    def _back(self) -> None:
        if self.away is not None:
            log.info("consul_answers", url=self.agent.url)
        self._say(None)

    def _say(self, away: str | None) -> None:
        if away != self.away:
            self.away = away
            self._changed(self.services)


def next_index(before: int, told: str) -> int:
    """The index to ask with next.

    0, which asks without waiting, when the index went back: a server was restored or replaced, and
    what waits for an index that is far off waits for ever. At least 1 otherwise: waiting for 0
    would not wait.
    """
    index = int(told) if told.isdecimal() else 0
    return 0 if index < before else max(1, index)


def worst(states: Set[str]) -> State:
    """The worst of these; `passing` when there is none. `maintenance` and what is unknown to us
    count as critical."""
    if not states <= set(WORST_FIRST):
        return "critical"
    return next((state for state in WORST_FIRST if state in states), "passing")


def _words(check: Mapping[str, Any]) -> str:
    said = " ".join(str(check["Output"] or check["Status"]).split())
    return f"{check['Name'] or check['CheckID']}: {said}"[:200]
