"""The real agent behind the real gateway, in front of scripted experts."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import structlog

from hearth.openai_api.testing import ScriptedModel
from moe_gateway.keys.store import KeyStore, Limits
from pipecatapp.app import build_app
from pipecatapp.settings import Settings
from tests.conftest import served
from tests.integration.gateway.conftest import KEY, SERVICE_KEY, Lab, caller, wait_until
from tests.ports import free_port

HEAD = "kind: workflow\nid: {id}\nversion: 1\ninputs: {{messages: {{type: messages}}}}\nsteps:\n"
ASK = """- id: {id}
  use: llm
  model: {model}
  with: {{messages: "{{{{ {messages} }}}}"}}
"""
SAY = 'outputs: {{text: {{type: text, value: "{{{{ {value} }}}}"}}}}\n'
MAY = "- {id: may, use: human.ask, with: {question: May I go on?}}\n"
ASKS = {"ask-big": "big", "ask-agent": "agent", "ask-itself": "workflow/ask-itself"}


def workflows() -> Iterator[tuple[str, str]]:
    """Conversations by their ids: each asks a model, one after a person, one what came of it."""
    whole = "inputs.messages"
    for name, model in ASKS.items():
        asks = ASK.format(id="said", model=model, messages=whole)
        yield name, HEAD.format(id=name) + asks + SAY.format(value="said.text")
    asks = ASK.format(id="said", model="small", messages=whole)
    yield "ask-first", HEAD.format(id="ask-first") + MAY + asks + SAY.format(value="said.text")
    done = ASK.format(id="done", model="agent", messages=whole)
    judged = "[{'role': 'user', 'content': 'judge: ' + done.text}]"
    asks = ASK.format(id="judged", model="big", messages=judged)
    both = "done.text + ' ' + judged.text"
    yield "delegate", HEAD.format(id="delegate") + done + asks + SAY.format(value=both)


@dataclass
class House:
    """A gateway with two experts and the agent service, which knows it as its gateway."""

    store: KeyStore
    small: ScriptedModel
    big: ScriptedModel
    gateway: httpx2.Client
    agent_url: str
    settings: Settings
    agent: ExitStack

    def restart(self) -> None:
        """Stop the agent service, if it runs, and start it; the gateway knows it when this ends."""
        self.agent.close()
        port = urlsplit(self.agent_url).port or 0
        self.agent.enter_context(served(build_app(self.settings), port=port))
        wait_until(lambda: "workflow/delegate" in self.gateway.get("/v1/models").text, 60)

    @contextmanager
    def key(self, name: str, **limits: Any) -> Iterator[httpx2.Client]:
        """A client with a key of these limits, as soon as the gateway knows it."""
        scopes = limits.pop("scopes", ("chat", "workflows"))
        made = self.store.add(name, Limits(scopes=scopes, **limits))
        with caller(str(self.gateway.base_url), made) as client:
            wait_until(lambda: client.get("/v1/models").status_code == 200, 60)
            yield client

    def used(self, name: str) -> int:
        """Tokens of a key, as its owner would be told."""
        keys = self.gateway.get("/api/keys").json()["keys"]
        return int(next(key["today"]["tokens"] for key in keys if key["name"] == name))


def settings_of(folder: Path, gateway: str) -> Settings:
    state = folder / "state"
    (state / "workflows").mkdir(parents=True)
    (state / "key").write_text(KEY)
    (state / "service_key").write_text(SERVICE_KEY)
    for name, text in workflows():
        (state / "workflows" / f"{name}.yaml").write_text(text)
    return Settings.model_validate(
        {
            "state_dir": state,
            "gateway_url": f"{gateway}/v1",
            "services": {"moe-gateway": gateway},
            "drain_seconds": 0,
            "voice_sessions": 0,
        }
    )


@pytest.fixture(autouse=True)
def quiet_logs() -> None:
    """A service in this process must not write into the output of a command in this process."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


@pytest.fixture(scope="package")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder, port = tmp_path_factory.mktemp("house"), free_port()
    small, big, store = ScriptedModel("small"), ScriptedModel("big"), KeyStore(folder / "keys.db")
    address = f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        lab = Lab(stack, folder)
        gateway = lab.gateway(
            lab.expert(small, slots=4),
            lab.expert(big, "big", auto=False),
            lab.at(address, lists_models=True),
            key_store=store.path,
            max_depth=3,
            ready=False,
        )
        settings = settings_of(folder, str(gateway.base_url).rstrip("/"))
        agent = stack.enter_context(ExitStack())
        whole = House(store, small, big, gateway, address, settings, agent)
        whole.restart()
        yield whole


@pytest.fixture
def house(whole: House) -> House:
    """The shared house; its models have no rules and no recorded requests."""
    whole.small.reset()
    whole.big.reset()
    return whole
