"""How fast: answers as a whole and in a stream, for one caller and for many."""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.benchmarks.entry import Benchmark, Pair
from tests.benchmarks.gateway.field import (
    MODELS,
    RELAY,
    RUNS_ON,
    Field,
    Json,
    Way,
    field,
    nginx_version,
    other_versions,
    peers,
)

PAIRS = 7
SECONDS = 2.0
PACED_SECONDS = 10.0
"""Of paced streams: each caller begins 15 of them, so the moment in which all 64 begin at once is
a fifteenth of what is seen."""
PACE_US = 10_000
"""Between two tokens: at this pace the peers do what the design's table says (decision 0132)."""
SLOWER_US, SLOWER_SECONDS = 20_000, 6.0
"""At this pace callers who begin together stay together for longer; each begins five streams."""

Measure = Callable[[Way], float]


def measured(
    one: Callable[[Way], Json],
    figure: str,
    *,
    interval_us: int = 0,
    models: int = MODELS,
    profiled: bool = False,
) -> list[Pair]:
    """Gateway and nginx in turns, the first one changing; then LiteLLM, what only passes bytes on,
    and no gateway at all."""
    with field(interval_us, models) as ways:
        pairs = [_pair(ways, turn, lambda way: float(one(way)[figure])) for turn in range(PAIRS)]
        if profiled:
            PROFILE[:] = profile(ways.gateway, lambda: one(ways.gateway))
    return pairs


def _pair(ways: Field, turn: int, measure: Measure) -> Pair:
    sides = [ways.gateway, ways.nginx] if turn % 2 else [ways.nginx, ways.gateway]
    found = {way.name: measure(way) for way in [*sides, ways.litellm, ways.relay, ways.models[0]]}
    sys.stderr.write(f"turn {turn + 1} of {PAIRS}: {found}\n")
    others = {name: found[name] for name in ("LiteLLM proxy", RELAY)}
    return Pair(found["gateway"], found["nginx"], others | {"direct": found["model 0"]})


def _of_direct() -> list[Pair]:
    """Paced streams that end, beside those of the model itself; nginx is one of the others."""
    found = measured(
        lambda w: w.load(64, PACED_SECONDS, stream=True), "per_second", interval_us=PACE_US
    )
    return [
        Pair(one.ours, one.others["direct"], {"nginx": one.peer} | _but_direct(one.others))
        for one in found
    ]


def _but_direct(others: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in others.items() if name != "direct"}


PROFILE: list[str] = []


def profile(way: Way, work: Callable[[], object]) -> list[str]:
    """Where the process spends its time meanwhile, in per cent of its samples, by function."""
    assert way.process is not None
    with tempfile.NamedTemporaryFile() as file:
        command = [str(peers() / "py-spy"), "record", "--pid", str(way.process.pid)]
        command += ["--format", "raw", "--duration", "6", "--rate", "400", "--output", file.name]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as spy:
            while spy.poll() is None:
                work()
            if spy.returncode:
                assert spy.stderr is not None
                raise RuntimeError(spy.stderr.read().decode())
        stacks = Path(file.name).read_text(encoding="utf-8").splitlines()
    return _hottest(stacks)


def _hottest(stacks: list[str], most: int = 14) -> list[str]:
    own: Counter[str] = Counter()
    for line in stacks:
        frames, _, count = line.rpartition(" ")
        own[re.sub(r":\d+\)$", ")", frames.rpartition(";")[2])] += int(count)
    total = own.total() or 1
    return [f"{100 * n / total:.1f} % {name}" for name, n in own.most_common(most)]


def _remarks() -> list[str]:
    return ["Where the gateway spent its time under this load (py-spy, own time):", *PROFILE]


NGINX_IS = (
    "nginx has one worker, keeps connections, and looks at nothing. The bare relay is what our own"
    " event loop takes to pass bytes on unseen."
)
OURS_DOES = (
    "The gateway does all that it does: a key with limits from its store, routing over all"
    f" instances with prefix affinity, queue, circuits, metrics, usage per key. {RUNS_ON}"
)

UNARY_P50 = Benchmark(
    id="gateway.unary_p50",
    about=f"One caller, whole answers, median time to the end. {OURS_DOES} {NGINX_IS}",
    unit="µs",
    peer="nginx",
    peer_version=nginx_version,
    goal=None,
    target=300,
    measure=lambda: measured(lambda w: w.load(1, SECONDS, stream=False), "total_p50"),
    lower_is_better=True,
    other_versions=other_versions,
)
UNARY_RPS16 = Benchmark(
    id="gateway.unary_rps16",
    about=f"16 callers, whole answers a second. {OURS_DOES} {NGINX_IS}",
    unit="requests/s",
    peer="nginx",
    peer_version=nginx_version,
    goal=None,
    target=12_000,
    measure=lambda: measured(
        lambda w: w.load(16, SECONDS, stream=False), "per_second", profiled=True
    ),
    other_versions=other_versions,
    remarks=_remarks,
)
STREAMS64 = Benchmark(
    id="gateway.streams64",
    about=f"64 callers, streams of 64 tokens that the model says at once. {OURS_DOES} {NGINX_IS}",
    unit="streams/s",
    peer="nginx",
    peer_version=nginx_version,
    goal=1.0,
    target=4_000,
    measure=lambda: measured(
        lambda w: w.load(64, SECONDS, stream=True), "per_second", profiled=True
    ),
    other_versions=other_versions,
    remarks=_remarks,
)
STREAMS64_ONE = Benchmark(
    id="gateway.streams64_one",
    about=(
        "64 callers, streams of 64 tokens that one model alone says at once: who takes them in"
        f" fewer pieces holds it up less. {OURS_DOES} {NGINX_IS}"
    ),
    unit="streams/s",
    peer="nginx",
    peer_version=nginx_version,
    goal=1.0,
    measure=lambda: measured(lambda w: w.load(64, SECONDS, stream=True), "per_second", models=1),
    other_versions=other_versions,
)
PACED64_TTFB = Benchmark(
    id="gateway.paced64_ttfb",
    about=(
        f"64 callers, streams of 64 tokens, one each {PACE_US // 1000} ms; median time to the first"
        f" byte of the body. {OURS_DOES} {NGINX_IS}"
    ),
    unit="µs",
    peer="nginx",
    peer_version=nginx_version,
    goal=None,
    target=1_100,
    measure=lambda: measured(
        lambda w: w.load(64, PACED_SECONDS, stream=True), "first_p50", interval_us=PACE_US
    ),
    lower_is_better=True,
    other_versions=other_versions,
)
PACED64_SLOWER_TTFB = Benchmark(
    id="gateway.paced64_slower_ttfb",
    about=(
        f"64 callers, streams of 64 tokens, one each {SLOWER_US // 1000} ms; median time to the"
        f" first byte of the body. {OURS_DOES} {NGINX_IS}"
    ),
    unit="µs",
    peer="nginx",
    peer_version=nginx_version,
    goal=None,
    target=1_100,
    measure=lambda: measured(
        lambda w: w.load(64, SLOWER_SECONDS, stream=True), "first_p50", interval_us=SLOWER_US
    ),
    lower_is_better=True,
    other_versions=other_versions,
)
PACED64_TOKENS = Benchmark(
    id="gateway.paced64_tokens",
    about=(
        f"64 callers, streams of 64 tokens, one each {PACE_US // 1000} ms: streams that end in a"
        f" second, against what the model does without a gateway. {OURS_DOES} {NGINX_IS}"
    ),
    unit="streams/s",
    peer="direct",
    peer_version=lambda: "(no gateway)",
    goal=0.995,
    measure=_of_direct,
    other_versions=lambda: {
        name: told for name, told in other_versions().items() if name != "direct"
    },
)
BENCHMARKS = (
    UNARY_P50,
    UNARY_RPS16,
    STREAMS64,
    STREAMS64_ONE,
    PACED64_TTFB,
    PACED64_SLOWER_TTFB,
    PACED64_TOKENS,
)
