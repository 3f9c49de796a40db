"""Conversations that stay with the instance whose cache holds them, against taking turns."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from importlib.metadata import version
from pathlib import Path
from statistics import median

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from tests.benchmarks.entry import Benchmark, Pair
from tests.benchmarks.gateway_tokens import HOST, KEY, ROOT, process, wait_for
from tests.ports import free_port

INSTANCES = 3
TALKS = 4
"""Not a multiple of the instances: taking turns then sends each turn of a talk elsewhere."""
TURNS = 3
PAIRS = 3
THREADS = max(1, len(os.sched_getaffinity(0)) - 1)
SENTENCES = 16
RULE = "You look after house number {}. Its doors, lamps and heaters are yours to know. "
RULES = RULE * SENTENCES
"""What a short system prompt with a tool is long: about 320 tokens, of each talk its own."""


@dataclass
class House:
    """Ports: of the three servers, and of the gateway in front of them."""

    servers: list[int]
    gateway: int


def measure() -> list[Pair]:
    """The same talks both ways, in turns; each pair has talks that nobody has heard before."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as house:
        return [pair(house, turn) for turn in range(PAIRS)]


def pair(house: House, turn: int) -> Pair:
    ways = [[house.gateway], house.servers]
    order = [0, 1] if turn % 2 else [1, 0]
    found = {way: hold(ways[way], f"{turn}-{way}") for way in order}
    sys.stderr.write(f"pair {turn + 1} of {PAIRS}: {found[0]} against {found[1]}\n")
    return Pair(found[0][0] * 1000, found[1][0] * 1000)


def hold(ports: list[int], name: str) -> tuple[float, float]:
    """Some talks at once, turn by turn, each request to the next port. Of all turns but the first:
    the median of the seconds to the first word, and the share of the prompt that was cached."""
    talks = [
        [{"role": "system", "content": RULES.format(*[f"{name}-{n}"] * SENTENCES)}]
        for n in range(TALKS)
    ]
    seconds, shares, asked = [], [], 0
    for turn in range(TURNS):
        for talk in talks:
            talk.append({"role": "user", "content": f"Question {turn}: what is on?"})
            first, share, said = ask(ports[asked % len(ports)], talk)
            talk.append({"role": "assistant", "content": said})
            asked += 1
            if turn:
                seconds.append(first)
                shares.append(share)
    return median(seconds), median(shares)


def ask(port: int, messages: list[dict[str, str]]) -> tuple[float, float, str]:
    """Seconds to the first event of the answer, the cached share of the prompt, the answer."""
    body = {
        "model": "smollm2",
        "messages": messages,
        "max_tokens": 8,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    head = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    connection = HTTPConnection(HOST, port, timeout=120)
    try:
        begun = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), head)
        answer = connection.getresponse()
        answer.readline()
        first = time.perf_counter() - begun
        lines = answer.read().decode().split("\n")
    finally:
        connection.close()
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    usage = next(chunk["usage"] for chunk in chunks if chunk.get("usage"))
    said = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
    cached: int = usage["prompt_tokens_details"]["cached_tokens"]
    return first, cached / usage["prompt_tokens"], said


@contextmanager
def running(folder: Path) -> Iterator[House]:
    """Three experts with the same model and a gateway, as processes."""
    store = ModelStore(ROOT / ".cache" / "models")
    pull(Catalogue.load()[FALLBACK], store)
    (folder / "key").write_text(KEY, encoding="utf-8")
    house = House([free_port() for _ in range(INSTANCES)], free_port())
    instances = [
        {"url": f"http://{HOST}:{port}", "expert": "smollm2", "slots": 4}
        | {"key_file": str(folder / "key"), "stops_unary": False}
        for port in house.servers
    ]
    with ExitStack() as stack:
        for port in house.servers:
            stack.enter_context(
                process(
                    "llama_expert",
                    NAME="smollm2",
                    PORT=str(port),
                    MODELS=json.dumps([FALLBACK]),
                    MODEL_DIR=str(store.root),
                    KEY_FILE=str(folder / "key"),
                    SLOTS="4",
                    THREADS=str(THREADS),
                )
            )
        stack.enter_context(
            process(
                "moe_gateway",
                PORT=str(house.gateway),
                KEY_FILES=json.dumps([str(folder / "key")]),
                INSTANCES=json.dumps(instances),
            )
        )
        for port in (*house.servers, house.gateway):
            wait_for(port)
        yield house


BENCHMARK = Benchmark(
    id="gateway.affinity_ttft",
    about=(
        f"{TALKS} conversations of {TURNS} turns, each with about 320 tokens of rules of its own,"
        f" over {INSTANCES} servers with SmolLM2-135M: seconds to the first word of every turn but"
        " the first, through the gateway, which keeps a conversation where its beginning is cached,"
        " against sending each request to the next server."
    ),
    unit="ms",
    peer="taking turns, xllamacpp",
    peer_version=lambda: version("xllamacpp"),
    goal=3,
    measure=measure,
    lower_is_better=True,
)
