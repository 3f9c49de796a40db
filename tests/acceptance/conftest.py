"""Hearth as its user has it: a fresh copy of the checkout, a fresh home, the README's command."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from openai import OpenAI

from tests.acceptance.fences import fences
from tests.rules import tree

START_SECONDS = 900
OURS = (
    "HEARTH_", "MOE_GATEWAY_", "PIPECATAPP_", "LLAMA_EXPERT_", "SPEECH_", "XDG_", "VIRTUAL_ENV",
    "PYTHON",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A copy of the checkout and the environment of a user who has just logged in."""

    checkout: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        path = f"{self.checkout / '.venv' / 'bin'}:{os.environ['PATH']}"
        return {**kept, "HOME": str(self.home), "PATH": path}

    @property
    def state(self) -> Path:
        return self.home / ".local" / "share" / "hearth"

    def run(self, *command: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command in the checkout as that user."""
        return subprocess.run(
            command, cwd=self.checkout, env=self.environment, capture_output=True, text=True,
            timeout=timeout, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip


@dataclass(frozen=True)
class Instance:
    """A running Hearth, on its default ports, with the real embedded model."""

    place: Place
    process: subprocess.Popen[bytes]
    log: Path
    started_with: str
    """The block of the README that started it."""

    web = "http://127.0.0.1:8000"
    api = "http://127.0.0.1:8080/v1"

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def key(self) -> str:
        return (self.place.state / "key").read_text(encoding="utf-8").strip()

    @property
    def service_key(self) -> str:
        return (self.place.state / "service_key").read_text(encoding="utf-8").strip()

    def client(self) -> OpenAI:
        """The official client; the caller closes it."""
        return OpenAI(base_url=self.api, api_key=self.key, max_retries=0, timeout=180)

    def http(self) -> httpx2.Client:
        """The agent's own API; the caller closes it."""
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx2.Client(base_url=self.web, headers=headers, timeout=180)

    def expert(self) -> httpx2.Client:
        """The expert itself, for its own metrics; the caller closes it."""
        headers = {"Authorization": f"Bearer {self.service_key}"}
        return httpx2.Client(
            base_url="http://127.0.0.1:8081", headers=headers, timeout=120,
            limits=httpx2.Limits(max_keepalive_connections=0),  # see `Starter.begin`
        )  # fmt: skip


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A copy of every file that a clone would have, and an empty home."""
    root = tmp_path_factory.mktemp("user")
    for file in tree.files():
        target = root / "hearth" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree.ROOT / file, target, follow_symlinks=False)
    (root / "home").mkdir()
    return Place(root / "hearth", root / "home")


@pytest.fixture(scope="session")
def instance(place: Place) -> Iterator[Instance]:
    """What the first command of the README gives, stopped by Ctrl-C at the end."""
    log = place.home / "first-run.log"
    command = fences(Path("README.md"))[0].body
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=place.checkout, env=place.environment,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    running = Instance(place, process, log, command)
    try:
        _wait_until_started(running)
        yield running
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(180)


def _wait_until_started(instance: Instance) -> None:
    deadline = time.monotonic() + START_SECONDS
    while "curl" not in instance.output:
        if instance.process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"The first start failed:\n{instance.output}")
        time.sleep(0.2)
