"""One build for all processors: each generation loads its own variant, and gets an answer."""

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.store import ModelStore
from tests.integration.expert import build_engines, variants
from tests.ports import free_port
from tests.support.shallow_model import keep_layers

EXTENDED_INPUTS = [
    "ansible/roles/llama_cpp/vars/main.yaml",
    "requirements/engines.lock",
    "tests/integration/expert/build_engines.py",
    "tests/integration/expert/variants.py",
    "tests/support/shallow_model.py",
]
pytestmark = [pytest.mark.extended, pytest.mark.timeout(3600)]

QEMU = "qemu-x86_64-static"
START_SECONDS = 120.0
MAPPED = re.compile(r"/libggml-cpu-(\w+)\.so")


@pytest.fixture(scope="module")
def emulator() -> str:
    """The program that runs programs for other processors."""
    found = shutil.which(QEMU)
    if found is None:
        pytest.skip(f"{QEMU} is not installed: apt-get install qemu-user-static")
    return found


@pytest.fixture(scope="module")
def engine() -> Path:
    """The server of a build with variants."""
    return variants.build() / "llama-server"


@pytest.fixture(scope="module")
def model(model_store: ModelStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model with one layer, which an emulated processor computes in seconds."""
    target = tmp_path_factory.mktemp("model") / "shallow.gguf"
    keep_layers(model_store.path(Catalogue.load()[FALLBACK]), target, 1)
    return target


@dataclass(frozen=True)
class Server:
    """A server that is ready."""

    url: str
    pid: int

    def variants(self) -> set[str]:
        """Return the variants that the process has in its memory."""
        return set(MAPPED.findall(Path(f"/proc/{self.pid}/maps").read_text(encoding="utf-8")))


@contextmanager
def serving(words: Sequence[str], model: Path, log: Path) -> Iterator[Server]:
    """Run a server with a model; yield it when it is ready."""
    port = free_port()
    command = [
        *words, "--model", str(model), "--host", "127.0.0.1", "--port", str(port),
        "--ctx-size", "256", "--threads", "1", "--no-warmup",
    ]  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        _wait_until_ready(process, f"http://127.0.0.1:{port}", log)
        yield Server(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with httpx2.Client(base_url=url, timeout=5) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if client.get("/health").status_code == 200:
                    return
            except httpx2.TransportError:
                time.sleep(0.2)
    said = log.read_text(encoding="utf-8", errors="replace")[-3000:]
    raise AssertionError(f"the server is not ready (exit code {process.poll()}):\n{said}")


@pytest.mark.parametrize(
    ("processor", "variant"),
    [
        ("Conroe", "x64"),
        ("Nehalem", "sse42"),
        ("SandyBridge", "sandybridge"),
        ("Haswell", "haswell"),
    ],
)
def test_processor_loads_its_variant_and_answers(
    emulator: str, engine: Path, model: Path, tmp_path: Path, processor: str, variant: str
) -> None:
    """Mini PCs without AVX2 crashed with an illegal instruction."""
    log = tmp_path / "server.log"
    with serving([emulator, "-cpu", processor, str(engine)], model, log) as server:
        question = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
        answer = httpx2.post(f"{server.url}/v1/chat/completions", json=question, timeout=120)
        variants_used = server.variants()

    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["completion_tokens"] > 0
    assert variants_used == {variant}


def test_processor_of_this_machine_gets_the_same_build(
    engine: Path, model: Path, tmp_path: Path
) -> None:
    """The role tells a person beforehand which variant a machine will use."""
    flags = set(re.findall(r"(?m)^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text())[0].split())
    expected = [one["name"] for one in variants.TABLE if set(one["flags"]) <= flags][-1]

    with serving([str(engine)], model, tmp_path / "server.log") as server:
        assert server.variants() == {expected}


def test_build_has_every_variant_that_the_role_names(engine: Path) -> None:
    """The report before a run names variants of this table."""
    built = {file.name for file in engine.parent.glob("libggml-cpu-*.so")}

    assert built == {f"libggml-cpu-{one['name']}.so" for one in variants.TABLE}


def test_build_without_variants_needs_a_newer_processor(
    emulator: str, model: Path, tmp_path: Path
) -> None:
    """What the variants are for."""
    command = [emulator, "-cpu", "Nehalem", str(build_engines.LLAMA_SERVER), "--model", str(model)]

    ended = subprocess.run(
        [*command, "--port", str(free_port())], capture_output=True, check=False, timeout=120,
        cwd=tmp_path,
    )  # fmt: skip

    assert ended.returncode == -signal.SIGILL
