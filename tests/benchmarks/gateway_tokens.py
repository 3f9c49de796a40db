"""Tokens through the gateway against tokens straight from the same expert."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import httpx2

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from tests.benchmarks.entry import Benchmark, Pair
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
KEY = "sk-hearth-benchmark"
TOKENS = 32
CALLERS = 4
PAIRS = 15
THREADS = max(1, len(os.sched_getaffinity(0)) - 1)
"""One core is left to the callers and the gateway: llama.cpp's threads wait for each other at every
layer, and with all cores taken the figure tells how the kernel schedules, not what a gateway costs.
"""
HOST = "127.0.0.1"


def measure(threads: int | None = THREADS) -> list[Pair]:
    """Both addresses in turns, the first one changing. `threads` None: the engine chooses."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), threads) as (expert, gateway),
    ):
        for port in (expert, gateway):
            tokens_per_second(port)
        return [pair(expert, gateway, turn) for turn in range(PAIRS)]


def pair(expert: int, gateway: int, turn: int) -> Pair:
    ours_first = turn % 2 == 1
    first = tokens_per_second(gateway if ours_first else expert)
    second = tokens_per_second(expert if ours_first else gateway)
    ours, peer = (first, second) if ours_first else (second, first)
    sys.stderr.write(f"pair {turn + 1} of {PAIRS}: {ours:.1f} against {peer:.1f} tokens/s\n")
    return Pair(ours, peer)


def tokens_per_second(port: int) -> float:
    """All callers at once, each with its own stream; from the first request to the last end."""
    start = time.perf_counter()
    with ThreadPoolExecutor(CALLERS) as callers:
        tokens = sum(callers.map(stream, [port] * CALLERS))
    return tokens / (time.perf_counter() - start)


def stream(port: int) -> int:
    """One streamed answer of fixed length, read by as little code as possible; its tokens."""
    body = json.dumps(
        {
            "model": "smollm2",
            "messages": [{"role": "user", "content": "Tell me about rivers."}],
            "max_tokens": TOKENS,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {KEY}\r\n"
        "Content-Type: application/json\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    answer = b""
    with socket.create_connection((HOST, port), timeout=120) as connection:
        connection.sendall(head.encode() + body)
        while data := connection.recv(65536):
            answer += data
    if b"data: [DONE]" not in answer:
        raise RuntimeError(f"No whole answer: {answer[-500:]!r}")
    return int(answer.rpartition(b'"completion_tokens":')[2].partition(b",")[0].strip(b"}"))


@contextlib.contextmanager
def running(folder: Path, threads: int | None) -> Iterator[tuple[int, int]]:
    """The expert and a gateway in front of it, as processes; their ports."""
    store = ModelStore(ROOT / ".cache" / "models")
    pull(Catalogue.load()[FALLBACK], store)
    (folder / "key").write_text(KEY, encoding="utf-8")
    expert, gateway = free_port(), free_port()
    instance = {"url": f"http://{HOST}:{expert}", "expert": "smollm2", "slots": CALLERS}
    instance |= {"key_file": str(folder / "key"), "stops_unary": False}
    with (
        process(
            "llama_expert",
            NAME="smollm2",
            PORT=str(expert),
            MODELS=json.dumps([FALLBACK]),
            MODEL_DIR=str(store.root),
            KEY_FILE=str(folder / "key"),
            SLOTS=str(CALLERS),
            **({} if threads is None else {"THREADS": str(threads)}),
        ),
        process(
            "moe_gateway",
            PORT=str(gateway),
            KEY_FILES=json.dumps([str(folder / "key")]),
            INSTANCES=json.dumps([instance]),
        ),
    ):
        wait_for(gateway)
        yield expert, gateway


@contextlib.contextmanager
def process(package: str, **settings: str) -> Iterator[None]:
    """One of our services, until the block is left."""
    own = {f"{package.upper()}_{name}": value for name, value in settings.items()}
    command = [sys.executable, "-m", package]
    child = subprocess.Popen(
        command, env={**os.environ, **own}, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=sys.stderr
    )
    try:
        yield
    finally:
        child.terminate()
        child.wait(30)


def wait_for(port: int) -> None:
    """Until the service is ready; the gateway is when the expert is."""
    ends = time.monotonic() + 120
    while time.monotonic() < ends:
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(f"http://{HOST}:{port}/health", trust_env=False).status_code == 200:
                return
        time.sleep(0.1)
    raise TimeoutError(f"Port {port} was not ready within 120 s.")


def _benchmark(name: str, about: str, threads: int | None) -> Benchmark:
    return Benchmark(
        id=f"gateway.{name}",
        about=(
            f"{CALLERS} callers at once, each a stream of {TOKENS} tokens from SmolLM2-135M:"
            " through the gateway (keys, routing, metrics, usage) against straight from the same"
            f" expert, whose engine has {about}"
        ),
        unit="tokens/s",
        peer="the expert itself, xllamacpp",
        peer_version=lambda: version("xllamacpp"),
        goal=0.995,
        measure=lambda: measure(threads),
    )


BENCHMARKS = (
    _benchmark(
        "tokens_of_direct",
        f"{THREADS} thread(s), so that a core is left to the callers and the gateway.",
        THREADS,
    ),
    _benchmark(
        "tokens_of_direct_all_cores",
        "the threads that it takes by itself: the gateway and the callers take what they need from"
        " the engine's cores.",
        None,
    ),
)
