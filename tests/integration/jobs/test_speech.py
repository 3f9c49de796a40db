"""What hears and what speaks as jobs of a real Nomad, found through Consul by gateway and agent."""

import json
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx2
import psutil
import pytest
from openai import OpenAI

from tests.integration.jobs.conftest import JOBS, KEYS, Cluster, Json
from tests.integration.speech.conftest import speech_models
from tests.integration.speech.golden import SENTENCES, word_errors
from tests.integration.speech.test_engines import settings
from tests.ports import free_ports

__all__ = ["speech_models"]
pytestmark = [pytest.mark.nomad, pytest.mark.timeout(300)]

MODELS = {"stt": "moonshine-tiny-en", "tts": "en-us-joe"}
DUTIES = ("speech-stt", "speech-tts")


@pytest.fixture(scope="module")
def ports(cluster: Cluster, speech_models: Path) -> dict[str, int]:
    """Both duties, the gateway and the agent run; the ports of the last two."""
    ports = dict(zip(("moe-gateway", "pipecatapp"), free_ports(2), strict=True))
    cluster.put_keys("moe-gateway", *KEYS)
    cluster.put_keys("pipecatapp", "api_key", "service_key")
    for duty in DUTIES:
        cluster.put_keys(duty, "service_key")
    cluster.run_all(
        partial(cluster.run, "moe-gateway", port=ports["moe-gateway"], version=1),
        partial(
            cluster.run, "pipecatapp", port=ports["pipecatapp"], version=1, driver="raw_exec",
            machine="machine1", state_dir=cluster.state,
        ),
        *(
            partial(
                cluster.run_bare, "speech", duty=duty, model=model, model_dir=speech_models,
                version=1,
            ) for duty, model in MODELS.items()
        ),
    )  # fmt: skip
    return ports


@contextmanager
def talking(cluster: Cluster, ports: dict[str, int]) -> Iterator[OpenAI]:
    """The official client at the gateway."""
    trusted = ssl.create_default_context(cafile=str(cluster.tls / "ca.pem"))
    with (
        httpx2.Client(verify=trusted, trust_env=False, timeout=60) as http,
        OpenAI(
            base_url=f"https://127.0.0.1:{ports['moe-gateway']}/v1", api_key=KEYS["api_key"],
            http_client=http,
        ) as client,
    ):  # fmt: skip
        yield client


@pytest.mark.parametrize("duty", MODELS)
def test_job_is_valid_for_the_real_nomad(cluster: Cluster, duty: str) -> None:
    """Driver settings are checked by the agent only, so the file alone proves little."""
    chosen = [f"-var=duty={duty}", f"-var=model={MODELS[duty]}"]
    told = cluster.command("job", "validate", *chosen, str(JOBS / "speech.nomad.hcl"))

    assert "Job validation successful" in told
    assert "not validated" not in told


def test_gateway_speaks_and_hears_through_the_jobs(cluster: Cluster, ports: dict[str, int]) -> None:
    """One address and one key for everything, with TLS on each step, wherever the engines run."""
    with talking(cluster, ports) as client:
        cluster.until(lambda: set(MODELS.values()) <= {
            model.id for model in client.models.list()
        })  # fmt: skip
        sound = client.audio.speech.create(
            model="tts-1", voice="alloy", input=SENTENCES[0], response_format="wav"
        ).content
        heard = client.audio.transcriptions.create(model="whisper-1", file=("a.wav", sound))

    assert word_errors(SENTENCES[0], heard.text) <= 0.4


@pytest.mark.engines
def test_compiled_whisper_takes_the_place_of_what_heard(
    cluster: Cluster, ports: dict[str, int], tmp_path: Path
) -> None:
    """Who wants more accuracy, or has a GPU, changes a line; nobody is deaf meanwhile. The model is
    one of another catalogue, for no package registry has models in whisper.cpp's own format."""
    chosen = settings("whisper.cpp", tmp_path)
    python = tmp_path / "python"
    catalogue = chosen["SPEECH_CATALOGUE"]
    python.write_text(f'#!/bin/sh\nSPEECH_CATALOGUE="{catalogue}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    cluster.run_bare(
        "speech", duty="stt", model=chosen["SPEECH_MODEL"], version=2, python=python,
        model_dir=chosen["SPEECH_MODEL_DIR"], whisper_server=chosen["SPEECH_WHISPER_SERVER"],
    )  # fmt: skip
    with talking(cluster, ports) as client:
        cluster.until(
            lambda: (found := {model.id for model in client.models.list()})
            >= {chosen["SPEECH_MODEL"]} and MODELS["stt"] not in found
        )  # fmt: skip
        sound = client.audio.speech.create(
            model="tts-1", voice="alloy", input=SENTENCES[0], response_format="wav"
        ).content
        heard = client.audio.transcriptions.create(model="whisper-1", file=("a.wav", sound))
    engines = [one for one in psutil.process_iter() if "--suppress-nst" in words_of(one)]

    assert word_errors(SENTENCES[0], heard.text) <= 0.4
    assert any(chosen["SPEECH_WHISPER_SERVER"] in words_of(one) for one in engines)


def words_of(process: psutil.Process) -> list[str]:
    """What it was started with; nothing of one that has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_agent_finds_both_in_consul(cluster: Cluster, ports: dict[str, int]) -> None:
    """The page offers Talk only where there is something to hear and to speak with."""
    with httpx2.Client(
        base_url=f"https://127.0.0.1:{ports['pipecatapp']}", trust_env=False, timeout=30,
        headers={"authorization": f"Bearer {KEYS['api_key']}"},
        verify=ssl.create_default_context(cafile=str(cluster.tls / "ca.pem")),
    ) as client:  # fmt: skip

        def found() -> list[Json]:
            services = client.get("/api/status").json()["services"]
            return [one for one in services if one["name"] in DUTIES and one["healthy"]]

        cluster.until(lambda: len(found()) == len(DUTIES))
        assert all(one["url"].startswith("https://") for one in found()), json.dumps(found())


def test_no_job_of_talking_asks_for_a_gpu() -> None:
    """The agent runs anywhere, and so does what it hears and speaks with."""
    for job in ("speech", "pipecatapp"):
        assert 'device "' not in (JOBS / f"{job}.nomad.hcl").read_text(encoding="utf-8")
