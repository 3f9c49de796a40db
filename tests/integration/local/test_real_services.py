"""The whole with its own services and the real small model, from start to the last process."""

import os
import shutil
import signal
from collections.abc import Callable

import httpx2
import pytest

from hearth.local.speech import MODELS as SPEECH_MODELS
from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull, pull_speech
from hearth.models.store import ModelStore
from hearth.service.state import read_instance
from tests.integration.local.conftest import Tiny, wait_for
from tests.rules.tree import ROOT


@pytest.fixture
def whole(make_tiny: Callable[[], Tiny]) -> Tiny:
    """The real command on a state directory that has the model already."""
    tiny = make_tiny()
    tiny.module = "hearth"
    cached = ModelStore(ROOT / ".cache" / "models")
    catalogue = Catalogue.load()
    pull(catalogue[FALLBACK], cached)
    for name in SPEECH_MODELS.values():
        pull_speech(catalogue.speech_model(name), cached)
    for name in (FALLBACK, *SPEECH_MODELS.values()):
        shutil.copytree(cached.root / name, tiny.state.models / name)
    return tiny


def test_real_services_answer_and_leave_nothing_behind(whole: Tiny) -> None:
    """Expert, gateway and agent find each other with nothing but what they were told."""
    up = whole.start()
    instance = wait_for(lambda: read_instance(whole.state), "all is healthy", 300)
    key = whole.state.key_file.read_text(encoding="utf-8").strip()
    answer = httpx2.post(
        f"{instance.api}/chat/completions",
        headers={"Authorization": f"Bearer {key}"},
        json={
            "model": "agent", "max_tokens": 8,
            "messages": [{"role": "user", "content": "Say hello."}],
        },
        timeout=240,
    )  # fmt: skip
    up.send(signal.SIGINT)

    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"]
    assert [service.name for service in instance.services] == [
        "llama-expert-smollm2", "embeddings", "speech-stt", "speech-tts", "moe-gateway",
        "pipecatapp",
    ]  # fmt: skip
    assert up.ended() == 0
    whole.assert_nothing_left()
    for log in whole.state.logs.iterdir():
        assert key not in log.read_text(encoding="utf-8")


def test_engine_ends_too_when_the_supervisor_is_killed(whole: Tiny) -> None:
    """The engine has a session of its own, holds the port and most of the memory."""
    up = whole.start("--detach")
    assert up.process.wait(300) == 0
    instance = whole.running()
    assert len(whole.pids()) > len(instance.services)
    os.kill(instance.pid, signal.SIGKILL)

    wait_for(lambda: whole.pids() == [], "no process is left")
    assert whole.run("status").returncode == 3
