"""An agent that answers what a test told it to, on a real socket. Public API.

    with ScriptedAgent() as agent:
        agent.answer("GET", "/v1/status/leader", "10.0.0.1:8300")
        agent.answer("PUT", "/v1/acl/bootstrap", "no", status=403)
        with Consul(Endpoint(agent.url)) as consul: ...
        agent.requests[-1].body

It plays answers that a real agent gives seldom or only in another version; what Consul and Nomad do
is tested against the real ones. Answers to one path come in order, the last one for ever after.
"""

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Received:
    """One request as it came; `body` is its JSON, None without one."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    headers: dict[str, str]


class ScriptedAgent:
    """Listens on a free port of loopback inside its `with` block; `url` is its address."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self._answers: dict[tuple[str, str], list[_Answer]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(
        self, method: str, path: str, value: Any, *, status: int = 200, **headers: str
    ) -> None:
        """Answer such a request with JSON. Bytes, and text of an error status, are sent unchanged.

        Headers are given with `_` for `-`: `X_Consul_Index="7"`.
        """
        if not isinstance(value, bytes):
            plain = status >= 400 and isinstance(value, str)
            value = (value if plain else json.dumps(value)).encode()
        named = {name.replace("_", "-"): content for name, content in headers.items()}
        row = self._answers.setdefault((method, path), [])
        row.append(_Answer(status, value, named))

    def _next(self, method: str, path: str) -> _Answer:
        row = self._answers.get((method, path))
        if not row:
            return _Answer(404, f"nothing was scripted for {method} {path}".encode(), {})
        return row.pop(0) if len(row) > 1 else row[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        agent = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                parts = urlsplit(self.path)
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = json.loads(sent) if sent else None
                agent.requests.append(
                    Received(
                        self.command, parts.path, dict(parse_qsl(parts.query)),
                        dict(self.headers.items()), body,
                    )
                )  # fmt: skip
                answer = agent._next(self.command, parts.path)
                self.send_response(answer.status)
                for name, content in answer.headers.items():
                    self.send_header(name, content)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_PUT = do_POST = do_DELETE = handle_any  # http.server's names

            def log_message(self, format: str, *args: Any) -> None:
                """Requests are kept in `requests`, and not written to stderr."""

        return Handler
