"""Runs the browser in a sandbox without a network, whose only way out are some unix sockets.

The sandbox starts it with the system's Python, so it uses only the standard library. Its arguments
are the first port, the folder of the sockets, and the command. Connections to the port `first + n`
on loopback are passed to the socket `n` in the folder.
"""

import contextlib
import socket
import subprocess
import sys
import threading
from pathlib import Path

PIECE = 1 << 16


def pump(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until one side closes, then close both."""
    with contextlib.suppress(OSError):
        while data := source.recv(PIECE):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def connect(client: socket.socket, path: Path) -> None:
    """Connect a client of the port to the socket; closes the client if nothing listens there."""
    with client, socket.socket(socket.AF_UNIX) as upstream:
        try:
            upstream.connect(str(path))
        except OSError:
            return
        back = threading.Thread(target=pump, args=(upstream, client), daemon=True)
        back.start()
        pump(client, upstream)
        back.join()


def serve(listener: socket.socket, path: Path) -> None:
    """Pass connections to the socket for ever."""
    while True:
        client, _address = listener.accept()
        threading.Thread(target=connect, args=(client, path), daemon=True).start()


def main(first: int, folder: Path, count: int, command: list[str]) -> int:
    """Listen, run the command, and return its exit code."""
    for number in range(count):
        listener = socket.create_server(("127.0.0.1", first + number))
        path = folder / str(number)
        threading.Thread(target=serve, args=(listener, path), daemon=True).start()
    # The browser is controlled by two inherited pipes.
    return subprocess.call(command, close_fds=False)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
