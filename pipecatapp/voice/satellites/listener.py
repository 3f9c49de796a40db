"""The port that Wyoming clients connect to, and the satellites that we connect to."""

import asyncio
from collections.abc import Coroutine, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

import structlog
from wyoming.ping import Ping
from wyoming.satellite import RunSatellite

from pipecatapp.voice.satellites.connection import Connection
from pipecatapp.voice.satellites.conversation import Conversations
from pipecatapp.voice.satellites.wire import Wire
from pipecatapp.voice.talk import CallerLeft

log = structlog.get_logger()

MOST_CONNECTIONS: Final = 64
AGAIN_SECONDS: Final = 10.0
PING_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 5.0

Network = IPv4Network | IPv6Network


class CannotListen(Exception):
    """The port is in use: set PIPECATAPP_WYOMING_PORT, or stop the other program."""


class Satellites:
    """Wyoming has no login, so only clients with an address in `peers` are served."""

    def __init__(self, conversations: Conversations, peers: Sequence[Network]) -> None:
        self._conversations, self._peers = conversations, peers
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int) -> int:
        """The port that it listens on. Raises `CannotListen`."""
        try:
            self._server = await asyncio.start_server(self._accept, host, port)
        except OSError as error:
            raise CannotListen(
                f"Satellites cannot be listened to on {host}:{port} ({error.strerror}): choose"
                " another PIPECATAPP_WYOMING_PORT, or end the program that has this one."
            ) from error
        taken: int = self._server.sockets[0].getsockname()[1]
        log.info("wyoming_listens", host=host, port=taken)
        return taken

    def call(self, address: str) -> None:
        """Stay connected with the satellite at `tcp://host:port`, as Home Assistant does."""
        url = urlsplit(address)
        assert url.hostname is not None
        assert url.port is not None
        self._spawn(self._stay(url.hostname, url.port))

    async def close(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        if not self._welcome(wire.peer) or len(self._tasks) >= MOST_CONNECTIONS:
            log.warning("wyoming_peer_refused", peer=wire.peer)
            await wire.close()
            return
        self._spawn(Connection(wire, self._conversations).serve())

    def _welcome(self, peer: str) -> bool:
        address = ip_address(peer.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._peers)

    async def _stay(self, host: str, port: int) -> None:
        """Logged once when the satellite goes away, and once when it is back."""
        away = False
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(host, port)
            except OSError as error:
                if not away:
                    log.warning("satellite_away", host=host, port=port, reason=str(error))
                away = True
            else:
                log.info("satellite_connected", host=host, port=port)
                away = False
                await self._attend(Wire(reader, writer))
            await asyncio.sleep(AGAIN_SECONDS)

    async def _attend(self, wire: Wire) -> None:
        pinging = asyncio.create_task(ping(wire))
        try:
            await wire.write(RunSatellite())
            await Connection(wire, self._conversations).serve()
        except CallerLeft:
            return
        finally:
            pinging.cancel()
            await asyncio.gather(pinging, return_exceptions=True)


async def ping(wire: Wire) -> None:
    """Detect a satellite without power: TCP reports it only after data is sent."""
    while True:
        await asyncio.sleep(PING_SECONDS)
        try:
            await wire.write(Ping())
        except CallerLeft:
            return
