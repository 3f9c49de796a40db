"""Watch the services in Consul with blocking queries.

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

CONNECT_SECONDS: Final = 3.0
QUICK_SECONDS: Final = 10.0
"""How long an answer may take that Consul need not hold."""

CATALOGUE: Final = "/v1/catalog/services"

LEFT_OUT: Final = "x-consul-results-filtered-by-acls"
"""Consul sets this header if the token may not read all of the result, but not in the results of
blocking queries, which may come from its streams, and not without a token."""

RIGHTS: Final = "it needs a policy with service:read and node:read"

NOTHING_LISTED: Final = (
    f"it lists no service, not even its own: the token may not read them ({RIGHTS})"
)

State = Literal["passing", "warning", "critical"]
WORST_FIRST: Final[tuple[State, ...]] = ("critical", "warning", "passing")


class ConsulAway(Exception):
    """Is the Consul agent running, its address right, and may the token read services and nodes?"""


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
            timeout=httpx2.Timeout(WAIT_SECONDS * 17 / 16 + GRACE_SECONDS, connect=CONNECT_SECONDS),
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
    """The output of the checks that do not pass; empty if all pass."""

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
    So it is with what the token may not read any more: it is not gone because it is not seen.
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
        self._unanswered: dict[str, str] = {}
        """Why each question has no answer now that has none."""

    async def run(self) -> None:
        """Follow the list of services, and each of them; never returns by itself."""
        following: dict[str, asyncio.Task[None]] = {}
        async with self.agent.client() as http, asyncio.TaskGroup() as group:
            async for listed in self._follow(http, CATALOGUE):
                names = {name for name in listed if self._wanted(name)}
                for name in (following.keys() | self.services.keys()) - names:
                    if gone := following.pop(name, None):
                        gone.cancel()
                    if await self._is_unlisted(http, name):
                        self._forget(name)
                    else:
                        names.add(name)
                for name in sorted(names - following.keys()):
                    following[name] = group.create_task(self._service(http, name))

    async def _is_unlisted(self, http: httpx2.AsyncClient, name: str) -> bool:
        """Whether nobody offers it any more, as far as the token can see."""
        try:
            found, _ = await self._ask(http, health_of(name), 0)
        except ConsulAway:
            return False
        return not found

    async def _service(self, http: httpx2.AsyncClient, name: str) -> None:
        async for entries in self._follow(http, health_of(name)):
            found = tuple(ServiceInstance.of(entry) for entry in entries)
            if found != self.services.get(name):
                self.services[name] = found
                self._changed(self.services)

    def _forget(self, name: str) -> None:
        self._back(health_of(name))
        if self.services.pop(name, None):
            self._changed(self.services)

    async def _follow(self, http: httpx2.AsyncClient, path: str) -> AsyncIterator[Any]:
        """Yield the response at `path`, then each different one: its index has changed, or the
        rights of the token have."""
        index, pause, loop = 0, FIRST_PAUSE, asyncio.get_running_loop()
        before: Any = None
        while True:
            asked_at = loop.time()
            try:
                found, told = await self._ask(http, path, index)
            except ConsulAway as error:
                self._lost(path, str(error))
                index = 0
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            self._back(path)
            pause, index = FIRST_PAUSE, next_index(index, told)
            if found != before:
                before = found
                yield found
            await asyncio.sleep(asked_at + CALM_SECONDS - loop.time())

    async def _ask(self, http: httpx2.AsyncClient, path: str, index: int) -> tuple[Any, str]:
        """Return the response and its index. Raises `ConsulAway`, also if it is empty because the
        token may not read more, which Consul does not report as an error."""
        found, told = await self._get(http, path, index)
        if index and not found:
            found, told = await self._get(http, path, 0)
        if not found:
            await self._doubt(http, path, told)
        return found, told["x-consul-index"]

    async def _doubt(self, http: httpx2.AsyncClient, path: str, told: Mapping[str, str]) -> None:
        """Raises `ConsulAway` where an empty answer need not mean that there is nothing."""
        if path == CATALOGUE:  # Consul itself is in a whole one.
            raise ConsulAway(NOTHING_LISTED)
        if LEFT_OUT in told:
            name = path.rpartition("/")[2]
            raise ConsulAway(f"the token may not read {name} or its nodes ({RIGHTS})")
        listed, told = await self._get(http, CATALOGUE, 0)
        if not listed and LEFT_OUT not in told:
            raise ConsulAway(NOTHING_LISTED)

    async def _get(
        self, http: httpx2.AsyncClient, path: str, index: int
    ) -> tuple[Any, Mapping[str, str]]:
        """Return the parsed response and its headers. Raises `ConsulAway`."""
        query = {"index": str(index), "wait": f"{WAIT_SECONDS:g}s"} if index else {}
        seconds = WAIT_SECONDS * 17 / 16 + GRACE_SECONDS if index else QUICK_SECONDS
        limit = httpx2.Timeout(seconds, connect=CONNECT_SECONDS)
        try:
            answer = await http.get(path, params=query, headers=self.agent.headers(), timeout=limit)
        except httpx2.TransportError as error:
            raise ConsulAway(str(error) or type(error).__name__) from error
        if not answer.is_success:
            said = f"HTTP {answer.status_code}: {answer.text.strip()[:200]}"
            unknown = f" (it does not know the token, or {RIGHTS})"
            raise ConsulAway(said + unknown * (answer.status_code == 403))
        if "x-consul-index" not in answer.headers:
            raise ConsulAway(f"what answers at {self.agent.url} is not Consul")
        return told_by(path, answer), answer.headers

    def _lost(self, path: str, reason: str) -> None:
        self._unanswered[path] = reason
        now = self._reason()
        if self.away is None:
            log.warning("consul_away", url=self.agent.url, reason=now, kept=len(self.services))
        elif self.away != now and not self.services:
            log.warning("consul_not_reached_yet", url=self.agent.url, reason=now)
        self._say(now)

    def _back(self, path: str) -> None:
        self._unanswered.pop(path, None)
        now = self._reason()
        if self.away is not None and now is None:
            log.info("consul_answers", url=self.agent.url)
        self._say(now)

    def _reason(self) -> str | None:
        """Return why Consul is unavailable, None if all queries are answered. The reason of the
        catalogue explains those of the services, in whatever order the queries failed."""
        return self._unanswered.get(CATALOGUE) or next(iter(self._unanswered.values()), None)

    def _say(self, away: str | None) -> None:
        if away != self.away:
            self.away = away
            self._changed(self.services)


def health_of(name: str) -> str:
    """Where Consul tells of a service's instances and their checks."""
    return f"/v1/health/service/{name}"


def told_by(path: str, answer: httpx2.Response) -> Any:
    """The services with their tags, or the entries of one. Raises `ConsulAway`: a proxy or another
    program may say anything."""
    try:
        found = answer.json()
        if path == CATALOGUE:
            found.keys()
        else:
            list(map(ServiceInstance.of, found))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConsulAway(f"the response is not Consul's: {answer.text.strip()[:50]!r}") from error
    return found


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
