"""A tiny real service: serves `/health` with the standard library, and misbehaves on request.

`python -P tiny.py PORT [--trait …]`; it writes its traits and the end of its life to its output.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def main() -> None:
    given = _arguments()
    print(f"starting on {given.port}", flush=True)  # noqa: T201 - its output is what is tested
    if given.fails:
        sys.exit("cannot read its settings")
    if given.with_child:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    if given.ignores_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, _stop)
    server = ThreadingHTTPServer(("127.0.0.1", given.port), _handler(given))
    server.serve_forever()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--ready-when", type=Path, help="healthy once this file exists")
    parser.add_argument("--lists-when", type=Path, help="what is not /health: 404 until it exists")
    parser.add_argument("--key", help="the key that /v1 requires")
    parser.add_argument("--fails", action="store_true", help="end at once with an error")
    parser.add_argument("--with-child", action="store_true", help="start a process of its own")
    parser.add_argument("--ignores-term", action="store_true", help="do not end on SIGTERM")
    return parser.parse_args()


def _stop(number: int, frame: object) -> None:
    print(f"stopped at {time.monotonic_ns()}", flush=True)  # noqa: T201
    os._exit(0)


def _handler(given: argparse.Namespace) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = 200, b"{}"
            if self.path == "/health":
                if given.ready_when is not None and not given.ready_when.exists():
                    status, body = 503, b'{"reasons": ["start: loading"]}'
            elif given.key and self.headers["Authorization"] != f"Bearer {given.key}":
                status = 401
            elif given.lists_when is not None and not given.lists_when.exists():
                status, body = 404, b'{"error": {"message": "The model is not known."}}'
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


if __name__ == "__main__":
    main()
