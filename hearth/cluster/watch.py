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
"""Time for which Consul may hold a request if nothing changes; it adds up to a sixteenth."""

GRACE_SECONDS: Final = 5.0
"""Extra time for a response; after it, the connection is considered lost."""

FIRST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 5.0
"""Seconds between attempts while Consul is unavailable; doubled up to the longest."""

CALM_SECONDS: Final = 0.1
"""Least time between two requests for one path, however often Consul's index changes."""

CONNECT_SECONDS: Final = 3.0
QUICK_SECONDS: Final = 10.0
"""Time limit for a response that Consul does not hold."""

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
    """Consul does not answer, or not completely; the message states the reason.

    Check that the agent runs, its address, and that the token may read services and nodes.
    """


@dataclass(frozen=True)
class ConsulAgent:
    """Address and token of a Consul agent; the token is read again for each request."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None

    def client(self) -> httpx2.AsyncClient:
        """Return a client without a limit of connections: each watched path holds one."""
        return httpx2.AsyncClient(
            base_url=self.url.rstrip("/"),
            timeout=httpx2.Timeout(WAIT_SECONDS * 17 / 16 + GRACE_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
            verify=trusting(self.ca_file),
            trust_env=False,
        )

    def headers(self) -> dict[str, str]:
        """Return the header with the token. Raises `ConsulAway` if its file cannot be read."""
        if self.token_file is None:
            return {}
        try:
            return {"x-consul-token": self.token_file.read_text(encoding="ascii").strip()}
        except (OSError, UnicodeDecodeError) as error:
            raise ConsulAway(f"the token file {self.token_file} cannot be read") from error


@dataclass(frozen=True)
class ServiceInstance:
    """One instance of a service. `state` is that of its worst check."""

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
        """Parse one entry of `/v1/health/service/<name>`."""
        node, service, checks = entry["Node"], entry["Service"], entry["Checks"]
        states = {check["Status"] for check in checks}
        failing = [check for check in checks if check["Status"] != "passing"]
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
            reason="; ".join(_output(check) for check in failing),
        )


Services = Mapping[str, Sequence[ServiceInstance]]


class ServiceWatch:
    """Watch every service whose name is `wanted`, until `run` is cancelled.

    `changed` is called with all services after each change of a service or of `away`. While Consul
    is unavailable, the last known services remain, `away` states the reason, and the log has a line
    for the loss and the return. Services that the token may no longer read remain as well.
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
        self._failures: dict[str, str] = {}
        """Path -> why its last request failed; without paths that were answered."""

    async def run(self) -> None:
        """Watch the list of services and each wanted service. Does not return."""
        following: dict[str, asyncio.Task[None]] = {}
        async with self.agent.client() as http, asyncio.TaskGroup() as group:
            async for listed in self._follow(http, CATALOGUE):
                names = {name for name in listed if self._wanted(name)}
                for name in (following.keys() | self.services.keys()) - names:
                    if task := following.pop(name, None):
                        task.cancel()
                    if await self._is_unlisted(http, name):
                        self._forget(name)
                    else:
                        names.add(name)
                for name in sorted(names - following.keys()):
                    following[name] = group.create_task(self._service(http, name))

    async def _is_unlisted(self, http: httpx2.AsyncClient, name: str) -> bool:
        """Whether a service has no instance any more. False if Consul cannot tell."""
        try:
            result, _ = await self._ask(http, health_of(name), 0)
        except ConsulAway:
            return False
        return not result

    async def _service(self, http: httpx2.AsyncClient, name: str) -> None:
        async for entries in self._follow(http, health_of(name)):
            result = tuple(ServiceInstance.of(entry) for entry in entries)
            if result != self.services.get(name):
                self.services[name] = result
                self._changed(self.services)

    def _forget(self, name: str) -> None:
        self._answered(health_of(name))
        if self.services.pop(name, None):
            self._changed(self.services)

    async def _follow(self, http: httpx2.AsyncClient, path: str) -> AsyncIterator[Any]:
        """Yield the response at `path`, then each different one: its index has changed, or the
        rights of the token have."""
        index, pause, loop = 0, FIRST_PAUSE, asyncio.get_running_loop()
        before: Any = None
        while True:
            sent_at = loop.time()
            try:
                result, reported = await self._ask(http, path, index)
            except ConsulAway as error:
                self._failed(path, str(error))
                index = 0
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            self._answered(path)
            pause, index = FIRST_PAUSE, next_index(index, reported)
            if result != before:
                before = result
                yield result
            await asyncio.sleep(sent_at + CALM_SECONDS - loop.time())

    async def _ask(self, http: httpx2.AsyncClient, path: str, index: int) -> tuple[Any, str]:
        """Return the response and its index. Raises `ConsulAway`, also if it is empty because the
        token may not read more, which Consul does not report as an error."""
        result, headers = await self._get(http, path, index)
        if index and not result:
            result, headers = await self._get(http, path, 0)
        if not result:
            await self._require_complete(http, path, headers)
        return result, headers["x-consul-index"]

    async def _require_complete(
        self, http: httpx2.AsyncClient, path: str, headers: Mapping[str, str]
    ) -> None:
        """Raise `ConsulAway` if a result is empty only because the token may not read it."""
        if path == CATALOGUE:  # A complete list contains Consul itself.
            raise ConsulAway(NOTHING_LISTED)
        if LEFT_OUT in headers:
            name = path.rpartition("/")[2]
            raise ConsulAway(f"the token may not read {name} or its nodes ({RIGHTS})")
        listed, headers = await self._get(http, CATALOGUE, 0)
        if not listed and LEFT_OUT not in headers:
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
            output = f"HTTP {answer.status_code}: {answer.text.strip()[:200]}"
            unknown = f" (it does not know the token, or {RIGHTS})"
            raise ConsulAway(output + unknown * (answer.status_code == 403))
        if "x-consul-index" not in answer.headers:
            raise ConsulAway(f"what answers at {self.agent.url} is not Consul")
        return parse_response(path, answer), answer.headers

    def _failed(self, path: str, reason: str) -> None:
        self._failures[path] = reason
        current = self._reason()
        if self.away is None:
            log.warning("consul_away", url=self.agent.url, reason=current, kept=len(self.services))
        elif self.away != current and not self.services:
            log.warning("consul_not_reached_yet", url=self.agent.url, reason=current)
        self._set_away(current)

    def _answered(self, path: str) -> None:
        self._failures.pop(path, None)
        current = self._reason()
        if self.away is not None and current is None:
            log.info("consul_answers", url=self.agent.url)
        self._set_away(current)

    def _reason(self) -> str | None:
        """Return why Consul is unavailable, None if all queries are answered. The reason of the
        catalogue explains those of the services, in whatever order the queries failed."""
        return self._failures.get(CATALOGUE) or next(iter(self._failures.values()), None)

    def _set_away(self, away: str | None) -> None:
        if away != self.away:
            self.away = away
            self._changed(self.services)


def health_of(name: str) -> str:
    """Return the path of the instances of a service and their checks."""
    return f"/v1/health/service/{name}"


def parse_response(path: str, answer: httpx2.Response) -> Any:
    """Return the services with their tags, or the entries of one service. Raises `ConsulAway` for
    other content, which a proxy may send."""
    try:
        result = answer.json()
        if path == CATALOGUE:
            result.keys()
        else:
            list(map(ServiceInstance.of, result))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConsulAway(f"the response is not Consul's: {answer.text.strip()[:50]!r}") from error
    return result


def next_index(before: int, reported: str) -> int:
    """Return the index for the next request.

    0, which does not wait, if the index decreased: a server was restored or replaced, and a request
    with the old index could wait forever. At least 1 otherwise, because a request with 0 does not
    wait.
    """
    index = int(reported) if reported.isdecimal() else 0
    return 0 if index < before else max(1, index)


def worst(states: Set[str]) -> State:
    """Return the worst state; `passing` if there is none. `maintenance` and unknown states count as
    critical."""
    if not states <= set(WORST_FIRST):
        return "critical"
    return next((state for state in WORST_FIRST if state in states), "passing")


def _output(check: Mapping[str, Any]) -> str:
    output = " ".join(str(check["Output"] or check["Status"]).split())
    return f"{check['Name'] or check['CheckID']}: {output}"[:200]
