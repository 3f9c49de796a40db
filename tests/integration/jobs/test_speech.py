"""What hears and what speaks as jobs of a real Nomad, found through Consul by gateway and agent."""

import json
import ssl
from pathlib import Path

import httpx2
import pytest
from openai import OpenAI

from tests.integration.jobs.conftest import JOBS, KEYS, Cluster, Json
from tests.integration.speech.conftest import speech_models
from tests.integration.speech.golden import SENTENCES, word_errors
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
    for duty, model in MODELS.items():
        cluster.put_keys(f"speech-{duty}", "service_key")
        cluster.run_bare("speech", duty=duty, model=model, model_dir=speech_models, version=1)
    cluster.run("moe-gateway", port=ports["moe-gateway"], version=1)
    cluster.run(
        "pipecatapp", port=ports["pipecatapp"], version=1, driver="raw_exec", machine="machine1",
        state_dir=cluster.state,
    )  # fmt: skip
    return ports


@pytest.mark.parametrize("duty", MODELS)
def test_job_is_valid_for_the_real_nomad(cluster: Cluster, duty: str) -> None:
    """Driver settings are checked by the agent only, so the file alone proves little."""
    chosen = [f"-var=duty={duty}", f"-var=model={MODELS[duty]}"]
    told = cluster.command("job", "validate", *chosen, str(JOBS / "speech.nomad.hcl"))

    assert "Job validation successful" in told
    assert "not validated" not in told


def test_gateway_speaks_and_hears_through_the_jobs(cluster: Cluster, ports: dict[str, int]) -> None:
    """One address and one key for everything, with TLS on each step, wherever the engines run."""
    trusted = ssl.create_default_context(cafile=str(cluster.tls / "ca.pem"))
    with (
        httpx2.Client(verify=trusted, trust_env=False, timeout=60) as http,
        OpenAI(
            base_url=f"https://127.0.0.1:{ports['moe-gateway']}/v1", api_key=KEYS["api_key"],
            http_client=http,
        ) as client,
    ):  # fmt: skip
        cluster.until(lambda: set(MODELS.values()) <= {
            model.id for model in client.models.list()
        })  # fmt: skip
        sound = client.audio.speech.create(
            model="tts-1", voice="alloy", input=SENTENCES[0], response_format="wav"
        ).content
        heard = client.audio.transcriptions.create(model="whisper-1", file=("a.wav", sound))

    assert word_errors(SENTENCES[0], heard.text) <= 0.4


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
