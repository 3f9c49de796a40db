"""Debian packages for hosts without a network: a caching proxy outside, reached by a socket.

One proxy on loopback serves all labs; `socat` hands it what comes over a unix socket, which is a
file and so can be reached from a namespace that no route leads out of. There, another `socat`
listens on the bridge.
"""

import os
import random
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path

import psutil

from hearth.lab.errors import LabError
from hearth.lab.folders import Folders
from hearth.lab.network import BRIDGE_ADDRESS, entered
from hearth.lab.programs import found, inside, run, start
from hearth.lab.systems import PROXY_PORT

USER = "apt-cacher-ng"
"""Debian's package makes it."""
PORTS = range(23142, 23192)
PARTS = ("apt-cacher-ng", "socat")
STARTING_SECONDS = 15.0


class Proxy:
    """The proxy of all labs below one folder."""

    def __init__(self, folders: Folders) -> None:
        self.folder = folders.packages
        self.socket = self.folder / "run" / "socket"
        self._output = self.folder / "log" / "output.log"

    def start(self) -> None:
        """Start it unless it runs; return when it takes connections."""
        if len(self._processes()) == len(PARTS) and self.socket.is_socket():
            return
        self.stop()
        for name in ("cache", "log", "run", "config"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            shutil.chown(self.folder / name, USER, USER)
        port = _free_port()
        configuration = self._configuration(port)
        (self.folder / "config" / "acng.conf").write_text(configuration, encoding="utf-8")
        self._spawn("apt-cacher-ng", "-c", f"{self.folder / 'config'}")
        self._spawn("socat", f"UNIX-LISTEN:{self.socket},fork", f"TCP4:127.0.0.1:{port}")
        self._wait(port)

    def stop(self) -> None:
        """Stop it; what it has fetched is kept."""
        processes = self._processes()
        for process in processes:
            process.terminate()
        for process in psutil.wait_procs(processes, timeout=3)[1]:
            process.kill()
        for file in (self.folder / "run").glob("*"):
            file.unlink()

    def _configuration(self, port: int) -> str:
        """Debian's own file remaps the mirrors, and answers 503 for what it remaps badly."""
        upstream = _proxy_of_controller()
        return "\n".join(
            [
                f"CacheDir: {self.folder / 'cache'}",
                f"LogDir: {self.folder / 'log'}",
                f"SocketPath: {self.folder / 'run' / 'administration'}",
                f"Port: {port}",
                "BindAddress: 127.0.0.1",
                "ForeGround: 1",
                *([f"Proxy: {upstream}"] if upstream else []),
                "",
            ]
        )

    def _spawn(self, program: str, *arguments: str) -> None:
        as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "--"]
        start(
            [*as_user, found(program) or program, *arguments],
            output=self._output,
            pid_file=self._pid_file(program),
        )

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + STARTING_SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                if self.socket.is_socket():
                    return
            time.sleep(0.05)
        self.stop()
        raise LabError(f"The packages' proxy does not start: {self._output.read_text()}")

    def _processes(self) -> list[psutil.Process]:
        return [process for part in PARTS if (process := self._process(part)) is not None]

    def _process(self, part: str) -> psutil.Process | None:
        """The one that the file names, unless it has died and its number was given away."""
        try:
            process = psutil.Process(int(self._pid_file(part).read_text(encoding="ascii")))
            return process if str(self.folder) in " ".join(process.cmdline()) else None
        except (OSError, ValueError, psutil.Error):
            return None

    def _pid_file(self, part: str) -> Path:
        return self.folder / "run" / f"{part}.pid"


def serve_in(namespace: str, proxy: Proxy) -> None:
    """Let the hosts of the lab with that namespace reach the proxy, unless they do already."""
    with entered(namespace), suppress(OSError):
        socket.create_connection((str(BRIDGE_ADDRESS), PROXY_PORT), timeout=1).close()
        return
    listen = f"TCP4-LISTEN:{PROXY_PORT},bind={BRIDGE_ADDRESS},fork,reuseaddr"
    start(
        inside(namespace, [found("socat") or "socat", listen, f"UNIX-CONNECT:{proxy.socket}"]),
        output=Path(os.devnull),
    )


def _proxy_of_controller() -> str:
    """Return the proxy that the controller's own apt uses; empty if there is none."""
    said = run("apt-config", "shell", "proxy", "Acquire::http::Proxy")
    return said.partition("'")[2].rpartition("'")[0]


def _free_port() -> int:
    """A port below those that the kernel gives away; the proxy cannot listen on any above.

    Any of them, so that two that start at the same time do not choose the same one.
    """
    for port in random.sample(PORTS, len(PORTS)):
        with suppress(OSError), socket.socket() as end:
            end.bind(("127.0.0.1", port))
            return port
    raise LabError(f"No port of {PORTS.start} to {PORTS.stop - 1} is free for apt-cacher-ng.")
