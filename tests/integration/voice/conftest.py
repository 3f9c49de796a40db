"""A whole house that hears and speaks: real engines, a real worker, a scripted model."""

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import numpy as np
import pytest
import soundfile
import soxr
from websockets.asyncio.client import ClientConnection, connect

from pipecatapp.voice.messages import HEARD_RATE, SPOKEN_RATE
from speech.audio import Samples, to_pcm
from tests.conftest import served
from tests.integration.agent.conftest import House, ScriptedGateway, empty_house
from tests.integration.speech.conftest import Speech, speech, speech_models, word_errors

__all__ = ["House", "ScriptedGateway", "empty_house", "speech", "speech_models"]

FRAME = HEARD_RATE // 50
"""Samples of 20 ms, as browsers send them."""

LOUD = 0.02
SECONDS = 120.0

Message = dict[str, Any]


@dataclass
class Caller:
    """Somebody with a microphone, in real time; what comes back is kept with its time."""

    socket: ClientConnection
    told: list[tuple[float, Message]] = field(default_factory=list)
    sound: list[tuple[float, Samples]] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def listen(self) -> None:
        async for message in self.socket:
            now = time.monotonic()
            if isinstance(message, bytes):
                samples = np.frombuffer(message, "<i2").astype(np.float32) / np.float32(32768)
                self.sound.append((now, samples))
            else:
                self.told.append((now, json.loads(message)))
            async with self._news:
                self._news.notify_all()

    async def speak(self, samples: Samples) -> float:
        """Say it at the pace of speech; when its last sample was sent."""
        data, began = to_pcm(samples), time.monotonic()
        for number, start in enumerate(range(0, len(data), 2 * FRAME)):
            await self.socket.send(data[start : start + 2 * FRAME])
            late = began + (number + 1) * FRAME / HEARD_RATE - time.monotonic()
            await asyncio.sleep(max(0.0, late))
        return time.monotonic()

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """The microphone goes on, and nobody speaks into it."""

        async def silence() -> None:
            while True:
                await self.speak(np.zeros(HEARD_RATE // 2, np.float32))

        task = asyncio.create_task(silence())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def hears(self, type: str, *, after: int = 0, **wanted: Any) -> Message:
        """The first message of that kind, from the message number `after` on."""
        try:
            async with asyncio.timeout(SECONDS), self._news:
                while True:
                    for _, message in self.told[after:]:
                        if message["type"] == type and wanted.items() <= message.items():
                            return message
                    await self._news.wait()
        except TimeoutError:
            heard = [f"{at:.1f} {message}" for at, message in self.told]
            raise TimeoutError(f"No {type} {wanted} after {after} of {heard}") from None

    async def sounds(self, *, after: float = 0.0) -> float:
        """When the agent could be heard first."""
        async with asyncio.timeout(SECONDS), self._news:
            while True:
                for at, samples in self.sound:
                    if at > after and abs(samples).max(initial=0) > LOUD:
                        return at
                await self._news.wait()

    def types(self) -> list[str]:
        return [message["type"] for _, message in self.told]

    def wav(self) -> bytes:
        """All that the agent said."""
        file = io.BytesIO()
        said = np.concatenate([samples for _, samples in self.sound])
        soundfile.write(file, said, SPOKEN_RATE, format="WAV")
        return file.getvalue()


@dataclass(frozen=True)
class Home:
    """The agent's house with ears and a mouth."""

    house: House
    speech: Speech

    def voice_of(self, text: str) -> Samples:
        """A person's voice that says this, without silence around it."""
        samples, rate = soundfile.read(io.BytesIO(self.speech.spoken(text)), dtype="float32")
        heard = np.asarray(soxr.resample(samples, rate, HEARD_RATE), np.float32)
        loud = np.flatnonzero(abs(heard) > LOUD)
        return heard[loud[0] : loud[-1] + 1]

    async def said(self, text: str, caller: Caller) -> None:
        """Wait until that is what the caller's loudspeaker said, as far as our ears can tell."""
        async with asyncio.timeout(SECONDS):
            while True:
                if caller.sound:
                    heard = await asyncio.to_thread(self.speech.heard, caller.wav())
                    if word_errors(text, heard) <= 0.5:
                        return
                await asyncio.sleep(0.5)

    async def empty(self) -> None:
        """Wait until nobody talks any more."""
        await self.tells("voice_sessions_running 0.0")

    async def tells(self, figure: str) -> None:
        """Wait until that stands in the metrics."""
        async with asyncio.timeout(SECONDS), httpx2.AsyncClient(timeout=60) as http:
            while True:
                figures = await http.get(f"{self.house.address}/metrics")
                if figure in figures.text:
                    return
                await asyncio.sleep(0.1)

    def figure(self, name: str) -> float:
        """What stands in the metrics now, by its name and labels."""
        told = httpx2.get(f"{self.house.address}/metrics", timeout=60).text
        [line] = [line for line in told.splitlines() if line.startswith(f"{name} ")]
        return float(line.split()[-1])

    def figures(self, name: str) -> list[float]:
        """The same for all labels."""
        told = httpx2.get(f"{self.house.address}/metrics", timeout=60).text
        lines = [line for line in told.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        return [float(line.split()[-1]) for line in lines]

    @contextmanager
    def another(self, more: dict[str, Any]) -> Iterator["Home"]:
        """A second house with the same model and engines, and other settings."""
        state = self.house.state.with_name("another")
        house = House(state, self.house.model, self.house.gateway)
        home = furnished(house, self.speech, more)
        with house.running():
            yield home

    @property
    def wyoming(self) -> int:
        """The port for satellites."""
        return int(self.house.more["wyoming_port"])

    @property
    def url(self) -> str:
        return self.house.address.replace("http", "ws") + "/api/voice"

    @asynccontextmanager
    async def caller(self, **hello: Any) -> AsyncIterator[Caller]:
        """Somebody who is connected and heard."""
        headers = {"authorization": f"Bearer {self.house.key}"}
        async with connect(self.url, additional_headers=headers, max_size=None) as socket:
            caller = Caller(socket)
            listening = asyncio.create_task(caller.listen())
            await socket.send(json.dumps({"type": "hello", "echo_cancelled": True, **hello}))
            await caller.hears("ready")
            try:
                yield caller
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)


@pytest.fixture(scope="module")
def voice_settings() -> dict[str, Any]:
    """More settings for `lasting_home`."""
    return {}


@pytest.fixture(scope="module")
def lasting_home(
    speech: Speech, voice_settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Home]:
    """One house for all tests of a file: its worker takes seconds until it is warm."""
    model = ScriptedGateway()
    with served(model.app) as gateway:
        house = House(tmp_path_factory.mktemp("home") / "state", model, gateway)
        home = furnished(house, speech, voice_settings)
        with house.running():
            yield home


def furnished(house: House, speech: Speech, more: dict[str, Any]) -> Home:
    """Keys, and where the engines are."""
    house.state.mkdir(exist_ok=True)
    (house.state / "key").write_text(house.key, encoding="utf-8")
    key = speech.key_file.read_text(encoding="ascii")
    (house.state / "service_key").write_text(key, encoding="ascii")
    services = {
        "moe-gateway": house.gateway, "speech-stt": speech.stt, "speech-tts": speech.tts,
    }  # fmt: skip
    house.more |= more | {"services": services | more.get("services", {})}
    return Home(house, speech)


@pytest.fixture
def home(empty_house: House, speech: Speech) -> Iterator[Home]:
    """The agent service in this process, its worker and the engines in theirs."""
    home = furnished(empty_house, speech, {"voice_sessions": 2})
    with empty_house.running():
        yield home
