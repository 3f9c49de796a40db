"""Run one program for an agent on another machine: `python -m pipecatapp.sandbox.worker FILE`.

FILE holds JSON: the `url` of the remote job, its one-time `token`, and `ca`, the trusted
certificates. The worker fetches the program and its folder from there, runs it in the sandbox of
this machine and sends the outcome to the same address. It waits while the agent restarts.
"""

import asyncio
import json
import os
import shutil
import signal
import ssl
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, BinaryIO, Final

from pipecatapp.sandbox import bundle
from pipecatapp.sandbox.bubblewrap import SandboxUnusable
from pipecatapp.sandbox.errand import REFUSED, Errand, carry_out, pack_outcome
from pipecatapp.sandbox.leftovers import guard
from pipecatapp.sandbox.sandbox import Sandbox
from pipecatapp.sandbox.tree import TooLarge, remove

FETCH_SECONDS: Final = 60.0
"""How long the agent may be away at the beginning."""
DELIVER_SECONDS: Final = 3600.0
"""Seconds for which a worker retries to deliver the result to an agent that is not available."""
PAUSE: Final = 1.0
SILENCE: Final = 60.0
MOST: Final = 1 << 40


class Agent:
    """The client of one remote job at the agent."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._url, self._token = str(told["url"]), str(told["token"])
        self._trust = ssl.create_default_context(cadata=told["ca"]) if told.get("ca") else None

    def fetch(self, target: BinaryIO) -> None:
        """Download the program and its folder."""
        with self._asked("GET", None, FETCH_SECONDS) as answer:
            shutil.copyfileobj(answer, target)

    def deliver(self, result: BinaryIO) -> None:
        """Upload the outcome."""
        self._asked("PUT", result, DELIVER_SECONDS).close()

    def _asked(self, method: str, body: BinaryIO | None, patience: float) -> Any:
        """Return the agent's answer; retries while the agent is unavailable and uses no proxy."""
        doors = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._trust)]
        opener, ends = urllib.request.build_opener(*doors), time.monotonic() + patience
        headers = {"authorization": f"Bearer {self._token}"}
        while True:
            if body is not None:
                headers["content-length"] = str(body.seek(0, 2))
                body.seek(0)
            try:
                request = urllib.request.Request(self._url, body, headers, method=method)
                return opener.open(request, timeout=SILENCE)
            except urllib.error.HTTPError as error:
                if error.code < 500 or time.monotonic() > ends:
                    raise
            except OSError:
                if time.monotonic() > ends:
                    raise
            time.sleep(PAUSE)


async def work(agent: Agent) -> None:
    """Fetch, run, deliver."""
    guard.watch()
    folder = Path(tempfile.mkdtemp(prefix=f"{guard.mark}-errand-"))
    try:
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as result:
            await asyncio.to_thread(agent.fetch, given)
            given.seek(0)
            errand = Errand.of(bundle.unpack(given, folder, size=MOST, count=MOST))
            try:
                ended = await carry_out(errand, folder, Sandbox())
                pack_outcome(result, ended, folder)
            except (SandboxUnusable, TooLarge, OSError, ValueError) as error:
                bundle.pack(result, {REFUSED: str(error)}, folder, ())
            await asyncio.to_thread(agent.deliver, result)
    finally:
        remove(folder)


async def main(told: dict[str, Any]) -> None:
    task = asyncio.ensure_future(work(Agent(told)))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        os._exit(128 + signal.SIGTERM)  # a thread may still wait for the agent


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_bytes())))
