"""Hearth as `hearth up` starts it, a plain pipecat beside it, and people who talk with them."""

import asyncio
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import httpx2
import numpy as np
import numpy.typing as npt
import soundfile
import soxr
from websockets.asyncio.client import ClientConnection, connect

from hearth.local.speech import MODELS
from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull, pull_speech
from hearth.models.store import ModelStore
from hearth.service.names import (
    LLAMA_EXPERT,
    PIPECATAPP,
    PORT_OFFSETS,
    SPEECH_STT,
    SPEECH_TTS,
    port_of,
)
from tests.benchmarks.gateway_tokens import HOST, ROOT, wait_for
from tests.ports import free_base, free_port

Samples = npt.NDArray[np.float32]
Side = Literal["ours", "peer"]

QUESTIONS: Final = (
    "What is the capital of France?",
    "How many planets are there in the solar system?",
    "What is a good name for a cat?",
    "Why is the sky blue?",
)
STORY: Final = "Tell me a long story about a dragon."
HEARD_RATE: Final = 16_000
FRAME: Final = HEARD_RATE // 50
LOUD: Final = 0.02
PATIENCE: Final = 240.0
AGAIN_SECONDS: Final = 10.0
"""After so long a question that was not heard is said again: three at once may be too many for the
peer, whose voice detector loses the beginning of what it comes to late."""

LONGEST_SECONDS: Final = 20.0
"""Nobody waits longer for an answer; one that does not come counts as much as this."""


@dataclass
class House:
    """Where both answer, and the voices of people by what they say."""

    ours: str
    peer: str
    key: str
    voices: dict[str, Samples]

    @contextlib.asynccontextmanager
    async def caller(self, side: Side) -> AsyncIterator["Caller"]:
        """Somebody who is connected and listened to."""
        headers = {"authorization": f"Bearer {self.key}"}
        url = self.ours if side == "ours" else self.peer
        async with connect(url, additional_headers=headers, max_size=None) as socket:
            caller = Caller(socket)
            listening = asyncio.create_task(caller.listen())
            if side == "ours":
                await socket.send(json.dumps({"type": "hello", "echo_cancelled": True}))
            try:
                async with asyncio.timeout(PATIENCE):
                    await caller.ready.wait()
                yield caller
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)


@dataclass
class Caller:
    """One person with a microphone and a loudspeaker."""

    socket: ClientConnection
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """The question was heard: who says it again now interrupts the answer."""
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    loud: list[float] = field(default_factory=list)
    """When a piece of sound came that can be heard."""
    stages: dict[str, float] = field(default_factory=dict)

    async def listen(self) -> None:
        async for message in self.socket:
            if isinstance(message, bytes):
                sound = np.frombuffer(message, "<i2").astype(np.float32) / np.float32(32768)
                if abs(sound).max(initial=0) > LOUD:
                    self.loud.append(time.monotonic())
                    self.heard.set()
            else:
                self._told(json.loads(message))

    def _told(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "ready":
                self.ready.set()
            case "asked":
                self.asked.set()
            case "turn":
                self.stages = message["stages"]

    async def speak(self, sound: Samples) -> float:
        """At the pace of speech; when its last sample was sent."""
        data, began = (np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes(), time.monotonic()
        for number, start in enumerate(range(0, len(data), 2 * FRAME)):
            await self.socket.send(data[start : start + 2 * FRAME])
            late = began + (number + 1) * FRAME / HEARD_RATE - time.monotonic()
            await asyncio.sleep(max(0.0, late))
        return time.monotonic()

    async def silent_until(self, then: float) -> None:
        """The microphone goes on without a voice until that time of the monotonic clock."""
        while time.monotonic() < then:
            await self.speak(np.zeros(FRAME, np.float32))

    async def ask(self, voice: Samples, longest: float = LONGEST_SECONDS) -> float:
        """Seconds from the end of the question to the first sound of the answer, or `longest`.

        A person who was not heard says it again, and the time goes on.
        """
        spoken = await self.speak(voice)
        again, end = spoken + AGAIN_SECONDS, spoken + longest
        while not self.heard.is_set() and time.monotonic() < end:
            await self.speak(np.zeros(FRAME, np.float32))
            if time.monotonic() > again and not self.asked.is_set():
                again = await self.speak(voice) + AGAIN_SECONDS
        return min(longest, self.loud[0] - spoken) if self.loud else longest


@contextlib.contextmanager
def house() -> Iterator[House]:
    """Everything that `hearth up` starts, and the peer with the same engines."""
    with tempfile.TemporaryDirectory() as name:
        state, port = Path(name), free_port()
        base = free_base(PORT_OFFSETS.values())
        lay_models(state)
        urls = {n: f"http://{HOST}:{port_of(n, base)}" for n in (SPEECH_STT, SPEECH_TTS)}
        expert = f"http://{HOST}:{port_of(LLAMA_EXPERT, base)}"
        key_file = state / "service_key"
        plain = [str(port), urls[SPEECH_STT], urls[SPEECH_TTS], expert, str(key_file)]
        up = ["hearth", "up", f"--state-dir={state}", f"--port-base={base}"]
        with process(*up, env=os.environ | {"PIPECATAPP_VOICE_SESSIONS": "3"}):
            for service in (PIPECATAPP, LLAMA_EXPERT, SPEECH_STT, SPEECH_TTS):
                wait_for(port_of(service, base))
            with process("tests.benchmarks.voice.plain", *plain, env=dict(os.environ)):
                wait_for(port)
                key = (state / "key").read_text(encoding="utf-8").strip()
                voices = {t: voice(urls[SPEECH_TTS], key, t) for t in (*QUESTIONS, STORY)}
                agent = f"ws://{HOST}:{port_of(PIPECATAPP, base)}/api/voice"
                found = House(agent, f"ws://{HOST}:{port}/ws", key, voices)
                asyncio.run(warm(found))
                yield found


async def warm(found: House) -> None:
    """Both have answered once."""
    sides: tuple[Side, ...] = ("ours", "peer")
    for side in sides:
        async with found.caller(side) as caller:
            await caller.ask(found.voices[QUESTIONS[0]], PATIENCE)


def lay_models(state: Path) -> None:
    """What the tests have fetched is not fetched again."""
    kept, catalogue = ModelStore(ROOT / ".cache" / "models"), Catalogue.load()
    folders = [pull(catalogue[FALLBACK], kept).parent]
    folders += [pull_speech(catalogue.speech_model(name), kept) for name in MODELS.values()]
    for folder in folders:
        shutil.copytree(folder, state / "models" / folder.name)


def voice(tts: str, key: str, text: str) -> Samples:
    """A person's voice that says this, without silence around it."""
    answer = httpx2.post(
        f"{tts}/v1/audio/speech", json={"input": text, "response_format": "wav"},
        headers={"authorization": f"Bearer {key}"}, timeout=120, trust_env=False,
    )  # fmt: skip
    samples, rate = soundfile.read(io.BytesIO(answer.raise_for_status().content), dtype="float32")
    heard = np.asarray(soxr.resample(samples, rate, HEARD_RATE), np.float32)
    loud = np.flatnonzero(abs(heard) > LOUD)
    return heard[loud[0] : loud[-1] + 1]


@contextlib.contextmanager
def process(module: str, *arguments: str, env: dict[str, str]) -> Iterator[None]:
    """A module as a process; what it prints is the benchmark's own trouble only."""
    child = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, env=env,
        stdout=subprocess.DEVNULL, stderr=sys.stderr,
    )  # fmt: skip
    try:
        yield
    finally:
        child.terminate()
        child.wait(60)
