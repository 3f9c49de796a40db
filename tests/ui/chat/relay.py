"""A way to the service that a test can lose, as a phone loses its network."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Relay:
    """Passes TCP connections on to a service until `lose`, and again after `restore`."""

    def __init__(self, target: str) -> None:
        url = urlsplit(target)
        self._target = (str(url.hostname), int(url.port or 80))
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._lost = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def lose(self) -> None:
        """Cut every connection and accept no other."""
        self._lost = True
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def restore(self) -> None:
        """Accept connections again."""
        self._lost = False

    def close(self) -> None:
        """End everything."""
        self.lose()
        for one in (self._server, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                if self._lost:
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._open += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed(target: str) -> Iterator[Relay]:
    """A relay to the service at an address."""
    relay = Relay(target)
    try:
        yield relay
    finally:
        relay.close()
