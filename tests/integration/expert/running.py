"""A running expert, as its supervisor would start it, and what a test asks it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil

from hearth.settings import Engine
from tests.integration.expert import build_engines
from tests.ports import free_port

KEY = "sk-hearth-test"
CHAT = "/v1/chat/completions"
LONG = "Write a very long story about a river, and never stop."


@dataclass
class Expert:
    """The launcher's process, and a client that has the key."""

    engine: Engine
    process: subprocess.Popen[bytes]
    client: httpx2.Client
    log: Path

    def chat(self, text: str, **fields: Any) -> dict[str, Any]:
        """Ask one question, get the answer in one piece."""
        answer = self.client.post(CHAT, json=question(text, **fields))
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    @contextmanager
    def stream(self, text: str, **fields: Any) -> Iterator[Iterator[str]]:
        """The events of a streamed answer; leaving the block hangs up."""
        body = question(text, stream=True, **fields)
        with self.client.stream("POST", CHAT, json=body) as answer:
            assert answer.status_code == 200, answer.read()
            yield (line[6:] for line in answer.iter_lines() if line.startswith("data: "))

    def busy_slots(self) -> int:
        """How many requests the engine works on, by its own account."""
        return sum(slot["is_processing"] for slot in self.client.get("/slots").json())

    def engine_process(self) -> psutil.Process:
        """The process that the launcher started."""
        (child,) = psutil.Process(self.process.pid).children()
        return child

    def works(self) -> bool:
        """Whether the engine spends processor time: evidence for one that has no `/slots`.

        A generation takes what it can get, on a crowded machine still a tenth of a processor; an
        idle server takes a thousandth.
        """
        engine = self.engine_process()
        before = sum(engine.cpu_times()[:2])
        time.sleep(2)
        return sum(engine.cpu_times()[:2]) - before > 0.05

    def ended(self, within: float = 120) -> int:
        """Wait for the launcher's end; its exit code."""
        return self.process.wait(within)

    def said(self) -> str:
        """Everything that launcher and engine have written."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def question(text: str, **fields: Any) -> dict[str, Any]:
    """A chat request with one user message."""
    return {"model": "any", "messages": [{"role": "user", "content": text}], **fields}


def until(is_so: Callable[[], bool], within: float, what: str) -> None:
    """Wait for something that the process under test does in its own time."""
    ends = time.monotonic() + within
    while not is_so():
        assert time.monotonic() < ends, f"not within {within} s: {what}"
        time.sleep(0.1)


@dataclass
class Starter:
    """Starts experts of one engine, with their keys and logs in one folder."""

    engine: Engine
    folder: Path
    model_dir: Path

    def begin(self, models: Sequence[str] = ("smollm2",), **settings: Any) -> Expert:
        """Start the launcher and do not wait."""
        port = settings.setdefault("port", free_port())
        key_file, log = self.folder / "key", self.folder / f"expert-{port}.log"
        key_file.write_text(KEY, encoding="utf-8")
        given = {
            "name": "smollm2",
            "models": json.dumps(list(models)),
            "model_dir": self.model_dir,
            "engine": self.engine,
            "key_file": key_file,
            "threads": 1,  # several would wait for each other on a busy machine
            "llama_server_binary": build_engines.LLAMA_SERVER,
            **settings,
        }
        environment = {f"LLAMA_EXPERT_{name.upper()}": str(value) for name, value in given.items()}
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [self.python, "-m", "llama_expert"],
                env={**os.environ, **environment},
                cwd=build_engines.REPOSITORY,
                stderr=sink,
                stdout=sink,
            )
        client = httpx2.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {KEY}"},
            timeout=240,
            trust_env=False,
            # The engine closes a connection after the same 5 s after which a client lets it go:
            # a request that comes just then would be lost.
            limits=httpx2.Limits(max_keepalive_connections=0),
        )
        return Expert(self.engine, process, client, log)

    @contextmanager
    def running(self, models: Sequence[str] = ("smollm2",), **settings: Any) -> Iterator[Expert]:
        """An expert that is ready; it is stopped when the block is left."""
        expert = self.begin(models, **settings)
        try:
            until(lambda: ready(expert), 300, f"ready; it said:\n{expert.said()}")
            yield expert
        finally:
            expert.client.close()
            expert.process.terminate()
            expert.process.wait(120)

    @property
    def python(self) -> str:
        """llama-cpp-python lives in an environment of its own."""
        if self.engine == "llama-cpp-python":
            return str(build_engines.PYTHON)
        return sys.executable


def ready(expert: Expert) -> bool:
    """Whether `/health` says so; a launcher that has ended will never be."""
    assert expert.process.poll() is None, f"the launcher ended:\n{expert.said()}"
    try:
        return expert.client.get("/health").status_code == 200
    except httpx2.TransportError:
        return False
