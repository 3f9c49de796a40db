"""A question that is spoken to the running whole, and what is left of it."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from websockets.asyncio.client import connect

from pipecatapp.voice.messages import HEARD_RATE, SPOKEN_RATE
from speech.audio import Samples
from tests.acceptance.conftest import Instance
from tests.integration.voice.conftest import Caller

SAID = "Tell me about the purple elephant in the garden."
WORDS = (b"purple", b"elephant")
SERVICES = ("llama-expert-smollm2", "moe-gateway", "pipecatapp", "speech-stt", "speech-tts")


async def test_what_is_said_at_home_stays_with_its_run(instance: Instance) -> None:
    """The words go by every service there is, spoken, heard, asked and answered; whoever reads a
    log, a figure or a temporary file afterwards learns none of them."""
    voice = await asyncio.to_thread(said_and_heard, instance)
    headers = {"authorization": f"Bearer {instance.key}"}
    url = instance.web.replace("http", "ws") + "/api/voice"
    async with connect(url, additional_headers=headers, max_size=None) as socket:
        caller = Caller(socket)
        listening = asyncio.create_task(caller.listen())
        await socket.send('{"type": "hello", "echo_cancelled": true}')
        await caller.hears("ready")
        await caller.speak(voice)
        async with caller.quiet():
            asked = await caller.hears("asked")
            await caller.hears("words")
            await caller.sounds()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    with instance.http() as web:
        run: dict[str, Any] = web.get(f"/api/runs/{asked['run']}").json()
    logs = {file.stem: file.read_bytes() for file in (instance.place.state / "logs").iterdir()}

    assert "elephant" in run["inputs"]["text"].lower()
    assert set(SERVICES) <= {name for name, log in logs.items() if log}
    told = logs | figures(instance) | {"terminal": instance.output.encode()}
    assert [where for where, text in told.items() if holds_a_word(text)] == []
    assert kept(instance) == {"ledger"}


def said_and_heard(instance: Instance) -> Samples:
    """The voice of a person; its words have gone by the gateway as text and as sound."""
    with instance.client() as client:
        sound = client.audio.speech.create(
            model="tts-1", voice="alloy", input=SAID, response_format="pcm"
        ).content
        samples = np.frombuffer(sound, "<i2").astype(np.float32) / np.float32(32768)
        file = io.BytesIO()
        soundfile.write(file, samples, SPOKEN_RATE, format="WAV")
        heard = client.audio.transcriptions.create(
            model="whisper-1", file=("question.wav", file.getvalue())
        )
    assert "elephant" in heard.text.lower()
    return np.asarray(soxr.resample(samples, SPOKEN_RATE, HEARD_RATE), np.float32)


def figures(instance: Instance) -> dict[str, bytes]:
    """What every service tells Prometheus, by its port."""
    status = json.loads(instance.place.run("hearth", "status", "--json").stdout)
    with instance.http() as web:
        return {
            str(service["port"]): web.get(f"http://127.0.0.1:{service['port']}/metrics").content
            for service in status["services"]
        }


def kept(instance: Instance) -> set[str]:
    """The parts of the state that hold a word of it; models know every word."""
    state = instance.place.state
    files = [file for file in state.rglob("*") if file.is_file()]
    return {
        file.relative_to(state).parts[0].partition(".")[0]
        for file in files
        if file.relative_to(state).parts[0] != "models" and holds_a_word(content_of(file))
    }


def content_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:  # A temporary one that is gone already.
        return b""


def holds_a_word(text: bytes) -> bool:
    return any(word in text.lower() for word in WORDS)
