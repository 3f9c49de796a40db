"""A real llama-server whose model takes tools and long prompts, behind a gateway."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from tests.clients import environments
from tests.integration.expert import build_engines
from tests.integration.expert.running import until
from tests.integration.gateway.conftest import Json, Lab
from tests.ports import free_port
from tests.support.shallow_model import keep_layers

CONTEXT = 32768
SECONDS = 600
LAYERS = 1
"""Of the model's 30: a prompt of a coding client is read in seconds, and the cache of the server
works as with all of them."""
END = "2+100"
"""The bias of the token `<|im_end|>`: answers are empty, and not as long as a client allows."""
TEMPLATE = environments.SOURCE / "coding" / "chat.jinja"
"""SmolLM2's own template ignores tools."""


@dataclass
class Coder:
    """The address of the gateway, and that of the server behind it."""

    url: str
    server: str


@contextmanager
def llama_server(model: Path, folder: Path, *more: str) -> Iterator[str]:
    """Serve a model with tools and a large context, and with more arguments; yields the address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with (folder / "llama-server.log").open("wb") as sink:
        process = subprocess.Popen([*_command(model, port), *more], stdout=sink, stderr=sink)
    try:
        until(lambda: _ready(process, address), 300, "llama-server is ready")
        yield address
    finally:
        process.kill()  # It has nothing to save, and would finish its present batch first.
        process.wait(60)


def smollm2() -> Path:
    """The weights of SmolLM2."""
    store = ModelStore(environments.ROOT / ".cache" / "models")
    return pull(Catalogue.load()[FALLBACK], store)


def _command(model: Path, port: int) -> list[str]:
    return [
        str(build_engines.LLAMA_SERVER),
        *("--model", str(model), "--alias", FALLBACK, "--host", "127.0.0.1", "--port", str(port)),
        *("--ctx-size", str(CONTEXT), "--override-kv", f"llama.context_length=int:{CONTEXT}"),
        *("--parallel", "1", "--threads", "1", "--threads-batch", "1"),
        *("--chat-template-file", str(TEMPLATE)),
        *("--no-ui", "--offline", "--log-verbosity", "1"),
    ]


def _ready(process: subprocess.Popen[bytes], address: str) -> bool:
    assert process.poll() is None, "llama-server ended"
    try:
        return httpx2.get(f"{address}/health", trust_env=False).status_code == 200
    except httpx2.TransportError:
        return False


@contextmanager
def coding_gateway(folder: Path, **settings: Any) -> Iterator[Coder]:
    """A gateway with such a server as the expert `smollm2`, and with more settings of its own.

    The model is the first layer of SmolLM2. Its output is no language: only the prompt counts here.
    """
    model = folder / "model.gguf"
    keep_layers(smollm2(), model, LAYERS)
    with llama_server(model, folder, "--logit-bias", END) as server, ExitStack() as stack:
        expert = {"url": server, "expert": FALLBACK, "slots": 1, "context": CONTEXT}
        # A long prompt takes minutes on a busy machine, and the server begins its answer before.
        patient: Json = {"first_byte_timeout": SECONDS, "idle_timeout": SECONDS}
        gateway = Lab(stack, folder).gateway(expert, **patient, **settings)
        yield Coder(str(gateway.base_url).rstrip("/"), server)
