"""What breaks while somebody talks: real sound, real engines that are really killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
import pytest
import soxr
import structlog

from hearth.service.names import SPEECH_STT, SPEECH_TTS
from pipecatapp.voice.messages import CANNOT_ANSWER, CANNOT_HEAR, HEARD_RATE, SPOKEN_RATE
from speech.audio import Samples
from tests.integration.agent.conftest import Serve
from tests.integration.gateway.api.test_traces import Collector
from tests.integration.local.conftest import free_port_base, wait_for
from tests.integration.speech.conftest import Speech, end, is_ready, start, word_errors
from tests.integration.voice.conftest import FRAME, SECONDS, Caller, Home
from tests.ports import free_ports
from tests.rules.tree import ROOT

QUESTION = "What is the capital of France?"
PARIS = "It is Paris."
STORY = " ".join(f"The dragon number {n} sat on a hill and looked at the sea." for n in range(8))

WORKER = "pipecatapp.voice.worker"

MODEL = """
import sys, threading, uvicorn
from hearth.openai_api.testing import ScriptedModel
model = ScriptedModel()
never = threading.Event()
model.when("Italy").say("It is Rome, which lies on the river.", held=never, held_after=5)
model.when("France").say("It is Paris.")
uvicorn.run(model.app, port=int(sys.argv[1]), log_level="critical")
"""
"""A model in a process of its own, which never comes to the end of what it says of Italy."""


@dataclass
class Engines:
    """Engines of these tests alone, which may be killed."""

    speech: Speech
    models: Path
    folder: Path

    def kill(self, name: str) -> None:
        """As a power failure does: nothing says goodbye."""
        process = self.speech.processes[name]
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.wait(60)

    def mend(self) -> None:
        """Start those again that a test which failed has left dead: they are for all tests here."""
        for name, process in self.speech.processes.items():
            if process.poll() is not None:
                self.again(name)

    def again(self, name: str) -> None:
        """Start it where it was."""
        url = {SPEECH_STT: self.speech.stt, SPEECH_TTS: self.speech.tts}[name]
        port = int(url.rpartition(":")[2])
        self.speech.processes[name] = start(
            name, port, self.speech.key_file, self.models, self.folder / f"{name}.log"
        )
        wait_for(lambda: is_ready(url), f"{name} is ready", 240)


@pytest.fixture(scope="module")
def engines(
    speech: Speech, speech_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engines]:
    folder, base = tmp_path_factory.mktemp("engines"), free_port_base()
    urls = {SPEECH_STT: f"http://127.0.0.1:{base}", SPEECH_TTS: f"http://127.0.0.1:{base + 1}"}
    ours = replace(speech, stt=urls[SPEECH_STT], tts=urls[SPEECH_TTS], processes={})
    own = Engines(ours, speech_models, folder)
    for name in urls:
        own.again(name)
    try:
        yield own
    finally:
        for process in own.speech.processes.values():
            end(process)


@pytest.fixture(scope="module")
def voice_settings(engines: Engines) -> dict[str, Any]:
    return {
        "services": {"speech-stt": engines.speech.stt, "speech-tts": engines.speech.tts},
        "voice_sessions": 3,
    }


@pytest.fixture
def home(lasting_home: Home, engines: Engines) -> Home:
    engines.mend()
    lasting_home.house.model.when("France").say(PARIS)
    return lasting_home


async def typed(caller: Caller, text: str) -> int:
    """Say it without a voice; the number of messages before it."""
    before = len(caller.told)
    await caller.socket.send(json.dumps({"type": "text", "text": text}))
    return before


async def goes_on(caller: Caller) -> None:
    """The next question is answered, and heard."""
    at = caller.sound[-1][0] if caller.sound else 0.0
    before = await typed(caller, QUESTION)
    await caller.hears("answered", after=before)
    await caller.sounds(after=at)


@contextmanager
def model_on(port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """`MODEL`, which answers when the block begins."""
    with subprocess.Popen([sys.executable, "-c", MODEL, str(port)], cwd=ROOT) as process:
        try:
            wait_for(lambda: is_ready(f"http://127.0.0.1:{port}"), "the model answers", 120)
            yield process
        finally:
            process.kill()


async def test_model_that_dies_in_mid_answer_is_an_apology_and_a_failed_run(home: Home) -> None:
    """Half of an answer and then silence would be taken for the whole of it."""
    [port] = free_ports(1)
    with home.another({"gateway_url": f"http://127.0.0.1:{port}/v1"}) as own, ExitStack() as stack:
        model = stack.enter_context(model_on(port))
        async with own.caller() as caller, caller.quiet():
            before = await typed(caller, "And of Italy?")
            await caller.hears("words", after=before)
            await asyncio.to_thread(model.kill)
            trouble = await caller.hears("trouble", after=before)
            asked = await caller.hears("asked", after=before)
            await own.said(f"It is Rome, {CANNOT_ANSWER}", caller)
            await asyncio.to_thread(stack.enter_context, model_on(port))
            await goes_on(caller)
        with own.house.client() as web:
            run = web.get(f"/api/runs/{asked['run']}").json()
        errors = own.figure('voice_errors_total{part="model"}')

    assert (trouble["part"], errors) == ("model", 1)
    assert run["status"] == "failed"


async def test_ears_that_die_are_an_apology_and_the_next_turn_is_heard(
    home: Home, engines: Engines
) -> None:
    """Who gets no answer at all says it again, louder, for ever."""
    question = home.voice_of(QUESTION)
    async with home.caller() as caller:
        await asyncio.to_thread(engines.kill, SPEECH_STT)
        await caller.speak(question)
        async with caller.quiet():
            trouble = await caller.hears("trouble")
            await caller.sounds()
            await caller.hears("state", state="speaking")
            await asyncio.to_thread(engines.again, SPEECH_STT)
            await home.said(CANNOT_HEAR, caller)
        before = len(caller.told)
        await caller.speak(question)
        async with caller.quiet():
            asked = await caller.hears("asked", after=before)

    assert trouble["part"] == "hearing"
    assert home.figure('voice_errors_total{part="hearing"}') >= 1
    assert "asked" not in [message["type"] for _, message in caller.told[:before]]
    assert word_errors(QUESTION, asked["text"]) <= 0.2


async def test_voice_that_dies_in_mid_answer_is_told_and_the_answer_is_kept(
    home: Home, engines: Engines
) -> None:
    """What cannot be spoken can still be read; and with a new voice it goes on."""
    home.house.model.when("story").say(STORY, pause=0.02)
    async with home.caller() as caller, caller.quiet():
        before = await typed(caller, "Tell me a story.")
        await caller.sounds()
        await asyncio.to_thread(engines.kill, SPEECH_TTS)
        trouble = await caller.hears("trouble", after=before)
        answered = await caller.hears("answered", after=before)
        await asyncio.to_thread(engines.again, SPEECH_TTS)
        await goes_on(caller)
    words = "".join(m["text"] for _, m in caller.told if m.get("run") == answered["run"] and
                    m["type"] == "words")  # fmt: skip

    assert trouble["part"] == "speaking"
    assert home.figure('voice_errors_total{part="speaking"}') >= 1
    assert words == STORY


async def test_worker_that_dies_ends_its_conversations_and_a_new_one_begins(home: Home) -> None:
    """pipecat, its models and its faults live in a process that may go at any time."""
    async with home.caller() as caller, caller.quiet():
        await typed(caller, QUESTION)
        await caller.hears("answered")
        await asyncio.to_thread(kill_worker)
        async with asyncio.timeout(60):
            await caller.socket.wait_closed()
    async with home.caller() as caller, caller.quiet():
        await goes_on(caller)
    with home.house.client() as web:
        figures = web.get("/metrics").text

    assert 'voice_sessions_total{ending="broken"} 1.0' in figures
    assert "voice_workers_recycled_total 1.0" in figures


def kill_worker() -> None:
    for pid in workers():
        assert psutil.Process(pid).environ()["MALLOC_ARENA_MAX"] == "2"
        os.kill(pid, signal.SIGKILL)


def workers() -> set[int]:
    """The process ids of all of them."""
    return {each.pid for each in psutil.Process().children() if WORKER in each.cmdline()}


async def test_worker_that_has_grown_too_large_finishes_what_it_has(home: Home) -> None:
    """Memory that nobody gives back is given back by a new process, and nobody is cut off."""
    async with home.caller():  # whose worker is one of the others
        others = workers()
    with home.another({"voice_worker_bytes": 1}) as own:
        async with own.caller() as first, first.quiet():
            old = workers() - others
            async with own.caller():
                pass
            await own.tells("voice_workers_recycled_total 1.0")
            both = workers() - others
            async with own.caller() as later, later.quiet():  # Seconds later: the next one is warm.
                await goes_on(first)
                await goes_on(later)
        # Whoever waits for a child takes its end from the agent, which then waits for ever.
        await asyncio.to_thread(
            wait_for, lambda: not any(map(psutil.pid_exists, old)), "the old worker has ended", 60
        )

    assert len(old) == 1
    assert len(both) == 2


async def test_unfinished_sentence_does_not_end_the_turn(home: Home) -> None:
    """People think in the middle of a sentence; an answer to its half interrupts them."""
    half, rest = home.voice_of("I would like to know, um,"), home.voice_of(QUESTION)
    pause = np.zeros(int(0.7 * HEARD_RATE), np.float32)
    async with home.caller() as caller:
        await caller.speak(np.concatenate([half, pause, rest]))
        async with caller.quiet():
            asked = await caller.hears("asked")
            await caller.hears("answered")
            await caller.hears("spoken")

    assert "like to know" in asked["text"].lower()
    assert "france" in asked["text"].lower()
    assert caller.types().count("asked") == 1
    assert home.figure('voice_turn_judgements_total{judgement="incomplete"}') >= 1


async def test_unfinished_sentence_ends_when_nobody_goes_on(home: Home) -> None:
    """Who has lost the thread waits for an answer, too."""
    unfinished = 'voice_turn_judgements_total{judgement="incomplete"}'
    before = home.figure(unfinished)
    async with home.caller() as caller:
        await caller.speak(home.voice_of("I would like to know, um,"))
        async with caller.quiet():
            asked = await caller.hears("asked")

    assert "like to know" in asked["text"].lower()
    assert home.figure(unfinished) > before


async def test_noise_is_no_question(home: Home) -> None:
    """A fan, a street, a hiss: a microphone hears them all day long."""
    noise = np.random.default_rng(7).normal(0, 0.05, 3 * HEARD_RATE).astype(np.float32)
    async with home.caller() as caller:
        await caller.speak(noise)
        async with caller.quiet():
            await typed(caller, QUESTION)
            await caller.hears("answered")

    assert caller.types().count("asked") == 1


@asynccontextmanager
async def echo(caller: Caller, gain: float) -> AsyncIterator[None]:
    """A loudspeaker beside the microphone: what is played is heard, a little later."""

    async def sends() -> None:
        played = 0
        while True:
            heard: Samples = np.zeros(FRAME, np.float32)
            if played < len(caller.sound):
                sound = caller.sound[played][1]
                heard = np.asarray(soxr.resample(sound, SPOKEN_RATE, HEARD_RATE), np.float32)
                played += 1
            await caller.speak(gain * heard)

    task = asyncio.create_task(sends())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_loudspeaker_beside_the_microphone_starts_no_talk_with_itself(home: Home) -> None:
    """Without echo cancellation an answer would be the next question, for ever."""
    home.house.model.when("sea").say(STORY[:112])
    async with home.caller(echo_cancelled=False) as caller, echo(caller, 0.5):
        await typed(caller, "Tell me of the sea.")
        await caller.hears("answered")
        await caller.hears("spoken")
        before = await typed(caller, QUESTION)
        await caller.hears("answered", after=before)

    assert caller.types().count("asked") == 2
    assert "heard" not in caller.types()


async def test_three_people_speak_at_once_and_each_gets_his_answer(home: Home) -> None:
    """A conversation is somebody's own: words of another room have no place in it."""
    people = {
        "What is the capital of France?": PARIS,
        "How many planets are there in the solar system?": "There are eight.",
        "Is there enough milk in the fridge for breakfast?": "There is half of a bottle.",
    }
    for_all = threading.Event()
    for word, answer in zip(("France", "planets", "breakfast"), people.values(), strict=True):
        home.house.model.when(word).say(answer, held=for_all)
    voices = [home.voice_of(question) for question in people]

    asked = asyncio.Semaphore(0)

    async def talks(voice: Samples) -> str:
        async with home.caller() as caller:
            await caller.speak(voice)
            async with caller.quiet():
                await caller.hears("asked")
                asked.release()
                await asyncio.to_thread(for_all.wait, SECONDS)
                await caller.hears("answered")
                await caller.sounds()
            return "".join(m["text"] for _, m in caller.told if m["type"] == "words")

    talking = asyncio.gather(*map(talks, voices))
    for _ in people:  # Nobody is answered before all have asked.
        await asked.acquire()
    for_all.set()
    answers = await talking

    assert answers == [*people.values()]


async def test_forgotten_page_makes_room_and_what_was_said_stands_nowhere_else(
    home: Home,
    engines: Engines,
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The place of a closed laptop is free again; and logs, which are kept, copied and read by
    others, hold nothing of what people say at home, no more than traces. The worker is started
    here, so that what it writes is seen, too, and where a library would tell its traces. What
    hears and what speaks also write of what they refuse, and of an engine that broke off; and a
    model that refuses a question may repeat it.
    """
    structlog.reset_defaults()
    collector = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", serve(collector))
    home.house.model.when("secret").say("Your xylophone is safe.")
    home.house.model.when("again").refuse(400, "An elephant again?", type="invalid_request_error")
    with home.another({"services": home.house.more["services"], "voice_idle_seconds": 4}) as own:
        async with own.caller() as caller:
            await caller.speak(home.voice_of("My secret is a purple elephant."))
            async with caller.quiet():
                heard = await caller.hears("asked")
                await caller.hears("answered")
                await typed(caller, "The elephant again.")
                trouble = await caller.hears("trouble")
                await caller.hears("idle")
                async with asyncio.timeout(60):
                    await caller.socket.wait_closed()
        await own.empty()
        with own.house.client() as web:
            figures = web.get("/metrics").text
    refused = await asyncio.to_thread(refusals, engines.speech)
    logs = [(engines.folder / f"{name}.log").read_text() for name in engines.speech.processes]
    told = "".join([*capfd.readouterr(), figures, *logs]).lower()

    assert "secret" in heard["text"].lower()
    assert (refused, trouble["part"]) == ([400, 400], "model")
    assert "voice_trouble" in told
    assert all("engine_ready" in log for log in logs)
    assert not [word for word in ("secret", "elephant", "xylophone") if word in told]
    assert collector.raw == b""
    assert 'voice_sessions_total{ending="left"} 1.0' in figures


def refusals(speech: Speech) -> list[int]:
    """The statuses for a text in a voice that is not there, and for a recording that is none."""
    said = {"input": "The purple elephant.", "voice": "bob"}
    with httpx2.Client(headers=speech.headers, timeout=120) as http:
        spoken = http.post(f"{speech.tts}/v1/audio/speech", json=said)
        heard = http.post(
            f"{speech.stt}/v1/audio/transcriptions", data={"model": "any"},
            files={"file": ("elephant.wav", b"elephant")},
        )  # fmt: skip
    return [spoken.status_code, heard.status_code]
