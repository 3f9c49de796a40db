"""A gateway for other people's programs, with a scripted model and the real small one."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from hearth.openai_api.testing import ScriptedModel
from tests.clients import environments
from tests.integration.expert.running import KEY as EXPERT_KEY
from tests.integration.expert.running import Expert, Starter
from tests.integration.gateway.clients.programs import installed
from tests.integration.gateway.clients.real import Coder, coding_gateway
from tests.integration.gateway.conftest import KEY, Json, Lab

SEARCH = 'hello.py\n```python\n<<<<<<< SEARCH\nprint("hello")\n=======\n'
EDIT = f'{SEARCH}print("hello, town")\n>>>>>>> REPLACE\n```\n'
"""How aider's models say what to change."""

NODE_SOURCE = environments.SOURCE / "node"


def scripted() -> ScriptedModel:
    """What `small` says to each case of the programs in tests/clients."""
    model = ScriptedModel()
    model.when(lambda asked: asked.messages[-1].role == "tool").say("It is noon.")
    model.when("good day").say("Good day to you.")
    model.when("with Bash").call_tool("Bash", {"command": "cat clock.txt", "description": "Look"})
    model.when("with a command").call_tool("exec_command", {"cmd": "cat clock.txt"})
    model.when("what time").call_tools(("time_now", {"zone": "UTC"}), ("time_now", {"zone": "CET"}))
    model.when("refuse").refuse(429, "Too many.", type="rate_limit_error", code="rate_limited")
    model.when("wrong").refuse(400, "That is no request.", type="invalid_request_error")
    model.when("later").refuse(503, headers={"retry-after": "0"}).say("Now.")
    for status in (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503):
        model.when(f"status {status}").refuse(status, headers={"retry-after-ms": "1"})
    final = {"retry-after-ms": "1", "x-should-retry": "false"}
    model.when("final").refuse(500, headers=final)
    model.when("break the town").lose(EDIT, after=6).refuse(400, "Enough.")
    model.when("break").lose("one two three four", after=2)
    model.when("a story without end").hang("once upon", after=1)
    model.when("a long story").say("once " * 4000, pause=0.01)
    model.when("greet the town").say(EDIT)
    model.when("Observation:").call_tool("final_answer", {"answer": "It is noon."})
    model.when("6 * 7 with code").say("<code>\nfinal_answer(6 * 7)\n</code>")
    return model


@dataclass
class Clients:
    """The address of the gateway, and the scripted model behind it."""

    url: str
    model: ScriptedModel

    def results(self, name: str, folder: Path) -> Json:
        """What a client's `conformance.py` tells."""
        program = environments.SOURCE / name / "conformance.py"
        found: Json = json.loads(self.run(name, folder, str(program)))
        return found

    def run(self, name: str, folder: Path, *arguments: str) -> str:
        """Run Python in a client's own environment; what it said."""
        ended = subprocess.run(
            [environments.python_of(name), *arguments], cwd=folder, env=self.environment(folder),
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def environment(self, home: Path) -> dict[str, str]:
        """Of somebody who has set the gateway's address and key, and nothing else."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        return {
            **kept,
            "HOME": str(home),
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_BASE": f"{self.url}/v1",
            "OPENAI_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": KEY,
            "OLLAMA_HOST": self.url,
            "OLLAMA_API_KEY": KEY,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "NO_PROXY": "*",
        }


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Expert]:
    """SmolLM2 in the embedded engine, for what only a real model can show."""
    store = ModelStore(environments.ROOT / ".cache" / "models")
    pull(Catalogue.load()[FALLBACK], store)
    with Starter("xllamacpp", tmp_path_factory.mktemp("expert"), store.root).running() as running:
        yield running


@pytest.fixture(scope="module")
def clients(real: Expert, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """A gateway with both models; another one for each module, so that counts are its own."""
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "expert_key").write_text(EXPERT_KEY)
    smollm2: dict[str, Any] = {
        "url": str(real.client.base_url),
        "expert": "smollm2",
        "key_file": folder / "expert_key",
        "slots": 4,
        "tools": "none",
        "stops_unary": False,
        "auto": False,
    }
    model = scripted()
    with ExitStack() as stack:
        lab = Lab(stack, folder)
        small = lab.expert(model, stops_unary=False, embeddings=True)
        gateway = lab.gateway(small, smollm2, circuit_failures=1000)
        yield Clients(str(gateway.base_url).rstrip("/"), model)


@pytest.fixture(scope="session")
def coder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coder]:
    """SmolLM2 in llama-server, as a model that takes tools and a long prompt."""
    with coding_gateway(tmp_path_factory.mktemp("coder")) as found:
        yield found


@pytest.fixture(scope="session")
def node_client() -> Path:
    """The folder with the locked client installed, kept for the next time."""
    return installed(NODE_SOURCE)
