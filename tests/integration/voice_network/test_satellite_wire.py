"""What a satellite sends is not to be trusted: anybody in the house can speak Wyoming."""

import asyncio
import socket
from typing import cast

import httpx2
import pytest
from wyoming.audio import AudioChunk

from pipecatapp.voice.satellites.conversation import Conversations
from pipecatapp.voice.satellites.engines import EngineFailed, told
from pipecatapp.voice.satellites.listener import CannotListen, Satellites
from pipecatapp.voice.satellites.satellite import MOST_PIECES, Satellite
from pipecatapp.voice.satellites.wire import Wire
from pipecatapp.voice.talk import CallerLeft


@pytest.fixture
async def wire() -> Wire:
    """Both ends are this test; nothing is written."""
    return Wire(asyncio.StreamReader(limit=1 << 20), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "line",
    [b"\n", b"[1]\n", b"{}\n", b'{"type": "ping", "data": 7}\n', b"\xff\n",
     b'{"type": "x", "payload_length": 99999999}\n', b'{"data": ' + b"[" * 100_000 + b"\n"],
)  # fmt: skip
async def test_what_is_no_event_ends_the_connection(wire: Wire, line: bytes) -> None:
    """And nothing else: no memory is taken for what is announced, no traceback kills a task."""
    wire._reader.feed_data(line)
    wire._reader.feed_eof()

    with pytest.raises(CallerLeft):
        await wire.read()


async def test_sound_that_nobody_takes_does_not_fill_the_memory(wire: Wire) -> None:
    """A worker that does not get ready while a satellite streams: what is newest is heard."""
    satellite = Satellite(wire, rate=22_050, patience=5)
    for n in range(MOST_PIECES + 2):
        sound = n.to_bytes(2, "little") * 160
        satellite.hears(AudioChunk(rate=16_000, width=2, channels=1, audio=sound))
    satellite._ready.set()

    assert satellite._heard.qsize() == MOST_PIECES
    assert await satellite.receive() == (2).to_bytes(2, "little") * 160


@pytest.mark.parametrize(
    ("body", "said"),
    [('{"error": {"message": "too loud"}}', "HTTP 400: too loud"), ("oh", "HTTP 400: oh"),
     ('{"detail": "gone"}', "HTTP 400: gone"), ("[]", "HTTP 400: []")],
)  # fmt: skip
def test_every_refusal_of_an_engine_has_words(body: str, said: str) -> None:
    """Also that of a proxy in between, which knows no OpenAI."""
    with pytest.raises(EngineFailed, match=f"^{said.replace('[]', r'..')}$"):
        told(httpx2.Response(400, text=body))


async def test_taken_port_is_said_in_a_sentence() -> None:
    """The agent does not start then, and its log has to say what to change."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        satellites = Satellites(cast("Conversations", None), [])

        with pytest.raises(CannotListen, match=rf"127\.0\.0\.1:{port} .*PIPECATAPP_WYOMING_PORT"):
            await satellites.listen("127.0.0.1", port)
