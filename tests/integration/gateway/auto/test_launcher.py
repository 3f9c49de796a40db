"""What the real launcher of an expert tells a real Consul decides how the gateway routes."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from hearth.openai_api.testing import ScriptedModel
from tests.integration.expert import build_engines
from tests.integration.expert.running import KEY as EXPERT_KEY
from tests.integration.expert.running import Starter
from tests.integration.gateway.conftest import CHAT, Lab, chat, instances_of, wait_until
from tests.integration.gateway.consul import running


def asked(gateway: httpx2.Client, model: str, **headers: str) -> tuple[str, str]:
    """Who answered, and why."""
    body, told = chat("Hi", model, max_tokens=2), {f"x-hearth-{n}": v for n, v in headers.items()}
    answer = gateway.post(CHAT, json=body, headers=told, timeout=120)
    return answer.headers["x-hearth-expert"], answer.headers["x-hearth-route"]


def test_domains_languages_and_fallback_of_an_expert_hold_on_a_cluster(
    lab: Lab, tmp_path: Path
) -> None:
    """Its job says them once; no setting of the gateway repeats them."""
    store = ModelStore(build_engines.REPOSITORY / ".cache" / "models")
    pull(Catalogue.load()[FALLBACK], store)
    (tmp_path / "expert_key").write_text(EXPERT_KEY)
    spare = lab.serve(ScriptedModel("scripted", key=EXPERT_KEY).app)
    said: dict[str, Any] = {
        "name": "coder", "cost": 2, "languages": '["de", "en"]', "domains": '["code"]',
        "fallback": '["spare"]',
    }  # fmt: skip
    with running(tmp_path) as consul:
        consul.register("llama-expert-spare", urlsplit(spare).port or 0, model="scripted")
        experts = Starter("xllamacpp", tmp_path, store.root)
        gateway = lab.gateway(
            ready=False,
            consul_url=consul.url,
            expert_key_file=tmp_path / "expert_key",
            check_interval=1,
        )
        with experts.running(consul_url=consul.url, **said) as coder:
            wait_until(lambda: [one["healthy"] for one in instances_of(gateway)] == [True] * 2, 60)
            found = {
                "nothing said": asked(gateway, "auto"),
                "code": asked(gateway, "auto", domain="code"),
                "code in French": asked(gateway, "auto", domain="code", language="fr"),
            }
            coder.process.kill()
            instead = ("spare", "asked by name; coder is not ready; its fallback spare")
            wait_until(lambda: asked(gateway, "coder") == instead, 60)

    assert found == {
        "nothing said": ("spare", "auto: cheapest of 2"),
        "code": ("coder", "auto: for code"),
        "code in French": ("spare", "auto: the only one that can"),
    }
