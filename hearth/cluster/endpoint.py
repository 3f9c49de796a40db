"""Endpoints of Consul and Nomad, and an HTTP session with time limits and verified certificates."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

import requests

from hearth.cluster.errors import (
    NoLeader,
    Unreachable,
    Untrusted,
    refusal,
)

Method = Literal["GET", "PUT", "POST", "DELETE"]
Json = dict[str, Any]

NO_LEADER: Final = re.compile(
    r"no cluster leader|not ready to serve|is not the leader|failed to get conn"
    r"|inserting bootstrap token: No such policy",
    re.IGNORECASE,
)
"""Answers of servers that have written nothing yet, so the same request may be sent again.
`failed to get conn`: the server that they take for the leader has just stopped. `No such policy`: a
new leader has not yet created the policy that the first token refers to."""
CONNECTION_LOST: Final = re.compile(r"rpc error.*\bEOF\b", re.IGNORECASE)
"""The connection from the server to the leader was closed, as by a reload of its certificate. The
leader may have done what it was sent, so only reads are repeated."""
PAUSE: Final = 0.5
"""Seconds between two attempts."""


@dataclass(frozen=True)
class Endpoint:
    """`Endpoint("https://10.0.0.11:4646", token=…, ca_file=…)`; `timeout` in seconds.

    `leader_timeout`: seconds to retry while the servers have no leader; 0: fail immediately.
    `ca_file`: the only authority whose certificates are trusted; without it, those of the system.
    `cert_file`, `key_file`: shown to an agent that asks for a certificate.
    """

    url: str
    token: str = field(default="", repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    timeout: float = 10.0
    leader_timeout: float = 0.0


ARGUMENTS: Final[Mapping[str, Json]] = {
    "url": {"type": "str", "required": True},
    "token": {"type": "str", "no_log": True},
    "ca_file": {"type": "path"},
    "cert_file": {"type": "path"},
    "key_file": {"type": "path"},
    "timeout": {"type": "float", "default": 10.0},
    "leader_timeout": {"type": "float", "default": 120.0},
}
"""The arguments of our Ansible modules that describe an endpoint."""


def endpoint_of(arguments: Mapping[str, Any]) -> Endpoint:
    """Return the endpoint from a module's arguments, see `ARGUMENTS`."""
    files = {
        name: Path(arguments[name]) if arguments[name] else None
        for name in ("ca_file", "cert_file", "key_file")
    }
    return Endpoint(
        arguments["url"], token=arguments["token"] or "", timeout=arguments["timeout"],
        leader_timeout=arguments["leader_timeout"], **files,
    )  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """The result of a blocking query: pass `index` to the next one to wait for a change."""

    index: int
    value: Any


class Session(requests.Session):
    """A session that uses the token, the authority and the timeout of its endpoint only.

    The libraries of Nomad and Consul send through it as well: certificates are verified, no
    variable of the environment (token, proxy, authority, netrc) changes a request, every request
    has a time limit, and an error status raises a `ClusterError`.
    """

    def __init__(self, endpoint: Endpoint, *, header: str, index_header: str) -> None:
        super().__init__()
        self.endpoint = endpoint
        self.trust_env = False
        self._header, self._index_header = header, index_header

    def request(self, method: str, url: Any, *args: Any, **options: Any) -> requests.Response:
        """Send a request. Raises `Unreachable`, `Untrusted` or `Refused`."""
        options |= {
            "headers": self._headers(options.get("headers")),
            "verify": str(self.endpoint.ca_file) if self.endpoint.ca_file else True,
            "cert": self._certificate(),
            "allow_redirects": False,
        }
        if options.get("timeout") is None:
            options["timeout"] = self.endpoint.timeout
        end = time.monotonic() + self.endpoint.leader_timeout
        while True:
            try:
                return self._request(method, url, *args, **options)
            except NoLeader:
                if time.monotonic() > end:
                    raise
            time.sleep(PAUSE)

    def _request(self, method: str, url: Any, *args: Any, **options: Any) -> requests.Response:
        try:
            answer = super().request(method, url, *args, **options)
        except requests.exceptions.SSLError as error:
            raise Untrusted(self.endpoint.url, _reason(error)) from error
        except (requests.RequestException, OSError) as error:
            raise Unreachable(self.endpoint.url, _reason(error)) from error
        if answer.status_code >= 300:
            reason, place = answer.text.strip(), answer.url.partition("?")[0]
            if answer.status_code >= 500 and _is_temporary(method, reason):
                raise NoLeader(place, answer.status_code, reason)
            raise refusal(place, answer.status_code, reason)
        return answer

    def call(
        self,
        method: Method,
        path: str,
        body: Any = None,
        *,
        params: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Send a request to `/v1/<path>`; return the JSON of the response, None without a body."""
        answer = self.request(method, self._url(path), params=params, json=body, timeout=timeout)
        return _json(answer) if answer.content.strip() else None

    def text(self, path: str, params: dict[str, Any] | None = None) -> str:
        """Return the body of `/v1/<path>` as text."""
        return self.request("GET", self._url(path), params=params).text

    def block(
        self, path: str, index: int, *, wait: float, params: dict[str, Any] | None = None
    ) -> Answer:
        """Wait until `/v1/<path>` differs from what it was at `index`, at most `wait` seconds.

        An agent adds up to a sixteenth of `wait` (HashiCorp's "Blocking Queries"), so the request
        has that limit and its usual time. A decreased index is returned as 0, so that the next
        call returns immediately: after a restore, a call with the old index could wait forever.
        """
        query = {**(params or {}), "index": index, "wait": f"{max(1, round(wait * 1000))}ms"}
        answer = self.request(
            "GET", self._url(path), params=query,
            timeout=self.endpoint.timeout + wait * 17 / 16,
        )  # fmt: skip
        new_index = int(answer.headers.get(self._index_header, 0))
        return Answer(index=new_index if new_index >= index else 0, value=_json(answer))

    def _url(self, path: str) -> str:
        return f"{self.endpoint.url.rstrip('/')}/v1/{quote(path, safe='/')}"

    def _headers(self, options: Any) -> dict[str, str]:
        headers = {k: v for k, v in (options or {}).items() if k.lower() != self._header.lower()}
        return headers | ({self._header: self.endpoint.token} if self.endpoint.token else {})

    def _certificate(self) -> tuple[str, str] | None:
        if self.endpoint.cert_file is None or self.endpoint.key_file is None:
            return None
        return str(self.endpoint.cert_file), str(self.endpoint.key_file)


def _is_temporary(method: str, answer: str) -> bool:
    """Whether the same request may be sent again once the servers have found a leader."""
    if NO_LEADER.search(answer):
        return True
    return method.upper() == "GET" and CONNECTION_LOST.search(answer) is not None


def _json(answer: requests.Response) -> Any:
    """Parse a JSON body. Raises `Unreachable` for anything else, which a proxy may send."""
    try:
        return answer.json()
    except requests.exceptions.JSONDecodeError as error:
        where = answer.url.partition("?")[0]
        raise Unreachable(where, "its response is not JSON") from error


def _reason(error: Exception) -> str:
    if isinstance(error, requests.Timeout):
        return "it did not answer in time"
    innermost: BaseException = error
    while (deeper := innermost.__cause__ or innermost.__context__) is not None:
        innermost = deeper
    return str(innermost) or type(innermost).__name__
