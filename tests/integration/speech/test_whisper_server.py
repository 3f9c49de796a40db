"""The server of whisper.cpp as a child: here a program that behaves like it on its socket."""

import sys
from pathlib import Path

import numpy as np

from speech.engines.whisper_server import ServerProcess

SERVER = """#!{python} -S
import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = b'{{"pid": %d, "asked": "%s"}}' % (os.getpid(), port.encode())
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

port = sys.argv[sys.argv.index("--port") + 1]
HTTPServer(("127.0.0.1", int(port)), Server).serve_forever()
"""


async def test_server_takes_a_port_that_nobody_else_can_have(tmp_path: Path) -> None:
    """A port that was looked for beforehand may be another program's by then, and would be asked
    what was said in this house."""
    program = tmp_path / "whisper-server"
    program.write_text(SERVER.format(python=sys.executable), encoding="ascii")
    program.chmod(0o755)
    server = await ServerProcess.start("tiny", str(program), tmp_path / "tiny.bin", 1)
    try:
        told = await server.ask(np.zeros(16_000, np.float32), "en")
    finally:
        await server.end()

    assert told == {"pid": server.child.pid, "asked": "0"}
