"""A machine of the lab that is switched off, and its network card that waits for a magic packet."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

from hearth.lab.lab import Lab
from hearth.lab.network import BRIDGE
from hearth.lab.node import Node
from hearth.lab.programs import run

ETH_P_ALL: Final = 3
EXPERT_PORT: Final = 8181
SERVER: Final = """
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, value, kind="application/json"):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        self.answer({"data": [{"id": "big"}]} if self.path == "/v1/models" else [])
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        kind = "chat.completion.chunk" if asked.get("stream") else "chat.completion"
        part = "delta" if asked.get("stream") else "message"
        choice = {"index": 0, part: {"role": "assistant", "content": "Good morning."}, "finish_reason": "stop"}
        answer = {"id": "1", "object": kind, "created": 1, "model": "big", "choices": [choice],
                  "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
        if asked.get("stream"):
            self.answer(b"data: %s\\n\\ndata: [DONE]\\n\\n" % json.dumps(answer).encode(), "text/event-stream")
        else:
            self.answer(answer)
ThreadingHTTPServer(("0.0.0.0", 8181), Model).serve_forever()
"""  # noqa: E501
UNIT: Final = """
[Unit]
Description=Expert
[Service]
ExecStart=/usr/bin/python3 /usr/local/lib/expert.py
[Install]
WantedBy=multi-user.target
"""


class Card:
    """The network card of a machine that is off: it listens on the bridge for the magic packet,
    and switches the machine on."""

    def __init__(self, lab: Lab, node: Node) -> None:
        self.lab, self.node = lab, node
        self.frames: list[bytes] = []
        """The frames with the magic packet that were on the bridge."""
        link = run(
            "ip", "-n", node.network.namespace_of(node.name), "-json", "link", "show", "eth0"
        )
        self.mac = str(json.loads(link)[0]["address"])
        self._wanted = b"\xff" * 6 + bytes.fromhex(self.mac.replace(":", "")) * 16
        self._closed = False

    def switch_off(self) -> None:
        """Cut the power of the machine; then nothing answers at its address."""
        self.node.kill()
        self.node.partition()

    def switch_on(self) -> None:
        """Switch the machine on by its button, and wait until it is up."""
        self.node.reconnect()
        self.node.start()
        self.node.wait()

    @contextmanager
    def listening(self) -> Iterator[Self]:
        with self.lab.inside():
            frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        frames.settimeout(0.2)
        thread = threading.Thread(target=self._listen, args=(frames,))
        thread.start()
        try:
            yield self
        finally:
            self._closed = True
            thread.join()
            frames.close()

    def _listen(self, frames: socket.socket) -> None:
        while not self._closed:
            try:
                frame, (interface, *_) = frames.recvfrom(2048)
            except TimeoutError:
                continue
            if interface == BRIDGE and self._wanted in frame:
                self.frames.append(frame)
                if not self.node.is_powered():
                    self.node.reconnect()
                    self.node.start()


def install_expert(node: Node) -> None:
    """Let a host serve the model `big` on `EXPERT_PORT` now and after each start."""
    node.ssh(
        f"cat > /usr/local/lib/expert.py <<'END'\n{SERVER}\nEND\n"
        f"cat > /etc/systemd/system/expert.service <<'END'\n{UNIT}\nEND\n"
        "systemctl enable --quiet --now expert"
    )


def remove_expert(node: Node) -> None:
    """Remove what `install_expert` has added."""
    node.ssh(
        "systemctl disable --quiet --now expert;"
        " rm /etc/systemd/system/expert.service /usr/local/lib/expert.py"
    )
