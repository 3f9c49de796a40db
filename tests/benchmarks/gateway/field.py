"""What the gateway is measured with: callers, models, peers and itself, each a process of its own.

Callers and models are C, so that what is measured is what stands between them. Everything listens
on loopback; all ways lead to the same models, three where nothing else is said.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import httpx2
import psutil

from moe_gateway.keys.store import KeyStore, Limits
from tests.clients.environments import ROOT, made
from tests.ports import free_port

HERE = Path(__file__).parent
PLACE = ROOT / ".cache" / "benchmarks"
PEERS = ROOT / "tests" / "benchmarks" / "peers"
HOST = "127.0.0.1"
SERVICE_KEY = "sk-hearth-benchmark"
RELAY = "bare relay"
MODELS = 3
TOKENS = 64
PLENTY = Limits(requests_per_minute=10**9, tokens_per_minute=10**12, tokens_per_day=10**15)
"""Limits that are never reached, so that they are looked at."""

Json = dict[str, Any]


@dataclass
class Way:
    """One way to the models: a port, a key, and the process that listens there."""

    name: str
    port: int
    key: str
    process: subprocess.Popen[bytes] | None = None

    def load(self, callers: int, seconds: float, *, stream: bool) -> Json:
        """What so many callers saw. Raises `RuntimeError` when a request failed."""
        command = [compiled("load"), self.port, callers, seconds, int(stream), self.key]
        ended = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, check=True, timeout=300
        )
        found: Json = json.loads(ended.stdout)
        if found["failed"] or not found["done"]:
            raise RuntimeError(f"{self.name} did not answer all: {found}")
        return found

    def memory(self) -> float:
        """Resident memory of the process and its children, in MB."""
        return sum(one.memory_info().rss for one in self._processes()) / 1e6

    def descriptors(self) -> int:
        return sum(one.num_fds() for one in self._processes())

    def _processes(self) -> list[psutil.Process]:
        assert self.process is not None
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]


@dataclass
class Field:
    """All ways, running."""

    gateway: Way
    nginx: Way
    litellm: Way
    relay: Way
    """Passes on what it gets, unseen: what the event loop itself takes."""
    models: list[Way]

    def stats(self) -> list[Json]:
        """What each model counted."""
        return [get(model.port, "/stats") for model in self.models]


@contextlib.contextmanager
def field(interval_us: int = 0, models_behind: int = MODELS) -> Iterator[Field]:
    """Everything started and warm; models say a token each so many microseconds, 0: all at once."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def start(command: list[object], **environment: str) -> subprocess.Popen[bytes]:
            return stack.enter_context(running(command, folder, environment))

        models = []
        for number in range(models_behind):
            port = free_port()
            process = start([compiled("upstream"), port, TOKENS, interval_us])
            models.append(Way(f"model {number}", port, SERVICE_KEY, process))
        ports = [model.port for model in models]
        ways = Field(
            _gateway(start, folder, ports),
            _nginx(start, folder, ports),
            _litellm(start, folder, ports),
            _relay(start, ports),
            models,
        )
        for way in (*models, ways.relay, ways.gateway, ways.nginx, ways.litellm):
            _wait_for(way)
            way.load(1, 0.5, stream=False)
        yield ways


Start = Callable[..., subprocess.Popen[bytes]]


def _gateway(start: Start, folder: Path, ports: list[int]) -> Way:
    """With everything that it does: keys with limits, usage, queue, circuits, prefix affinity."""
    key, port = KeyStore(folder / "keys.db").add("benchmark", PLENTY), free_port()
    (folder / "key").write_text(SERVICE_KEY)
    instances = [
        {"url": f"http://{HOST}:{p}", "expert": "fake", "key_file": str(folder / "key")}
        | {"slots": 256, "context": 8192}
        for p in ports
    ]
    process = start(
        [interpreter(), "-m", "moe_gateway"],
        PYTHONPATH=sysconfig.get_path("purelib"),
        PYTHONDONTWRITEBYTECODE="",
        MOE_GATEWAY_PORT=str(port),
        MOE_GATEWAY_KEY_FILES=json.dumps([str(folder / "key")]),
        MOE_GATEWAY_KEY_STORE=str(folder / "keys.db"),
        MOE_GATEWAY_INSTANCES=json.dumps(instances),
    )
    return Way("gateway", port, key, process)


SYSTEMS_PYTHON: Final = Path("/usr/bin/python3")
RUNS_ON = "It runs on Debian's own Python where that is of our version, with bytecode in its place."


def interpreter() -> Path:
    """What our gateway runs on: what bootstrap.sh takes on a Debian machine that has no other
    Python, with the packages of our environment; where that is another version, our own.
    """
    told = "import sys; print(*sys.version_info[:2])"
    if not SYSTEMS_PYTHON.exists():
        return Path(sys.executable)
    found = subprocess.run([SYSTEMS_PYTHON, "-c", told], capture_output=True, text=True, check=True)
    ours = f"{sys.version_info[0]} {sys.version_info[1]}"
    return SYSTEMS_PYTHON if found.stdout.strip() == ours else Path(sys.executable)


NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 2048; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  keepalive_requests 100000000;
  upstream models {{ {servers} keepalive 256; keepalive_requests 100000000; }}
  server {{
    listen {host}:{port};
    location / {{
      proxy_pass http://models; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_request_buffering off;
    }}
  }}
}}
"""


def _nginx(start: Start, folder: Path, ports: list[int]) -> Way:
    """One worker, as we have one process; nothing is looked at."""
    port = free_port()
    servers = " ".join(f"server {HOST}:{p};" for p in ports)
    file = folder / "nginx.conf"
    file.write_text(NGINX.format(folder=folder, servers=servers, host=HOST, port=port))
    return Way("nginx", port, SERVICE_KEY, start([nginx(), "-c", file]))


def _litellm(start: Start, folder: Path, ports: list[int]) -> Way:
    port, place = free_port(), peers()
    settings = {
        "model_list": [
            {
                "model_name": "fake",
                "litellm_params": {
                    "model": "openai/fake",
                    "api_base": f"http://{HOST}:{p}/v1",
                    "api_key": SERVICE_KEY,
                },
            }
            for p in ports
        ],
        "general_settings": {"master_key": SERVICE_KEY},
        "litellm_settings": {"num_retries": 0, "telemetry": False},
    }
    file = folder / "litellm.yaml"
    file.write_text(json.dumps(settings))  # JSON is YAML.
    command = [place / "litellm", "--config", file, "--host", HOST, "--port", port]
    process = start(
        [*command, "--num_workers", 1], LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_LOG="ERROR",
        PATH=f"{place}:{os.environ['PATH']}", NO_PROXY="*", LITELLM_MODE="PRODUCTION",
    )  # fmt: skip
    return Way("LiteLLM proxy", port, SERVICE_KEY, process)


def _relay(start: Start, ports: list[int]) -> Way:
    port = free_port()
    process = start(
        [interpreter(), HERE / "relay.py", port, *ports], PYTHONPATH=sysconfig.get_path("purelib")
    )
    return Way(RELAY, port, SERVICE_KEY, process)


def peers() -> Path:
    """The programs of the peers' environment; it is made at the first use."""
    return made("peers", PEERS / "requirements.lock").parent


def nginx() -> str:
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        raise FileNotFoundError("The gateway is measured against nginx: install Debian's nginx.")
    return found


def nginx_version() -> str:
    told = subprocess.run([nginx(), "-v"], capture_output=True, text=True, check=True)
    return told.stderr.strip().rpartition("/")[2]


def litellm_version() -> str:
    code = "from importlib.metadata import version; print(version('litellm'))"
    told = subprocess.run([peers() / "python", "-c", code], capture_output=True, check=True)
    return told.stdout.decode().strip()


def other_versions() -> dict[str, str]:
    return {
        "LiteLLM proxy": litellm_version(),
        "nginx": nginx_version(),
        "direct": "(no gateway)",
        RELAY: f"(uvloop {version('uvloop')})",
    }


def server_version() -> str:
    return f"uvicorn {version('uvicorn')}, uvloop {version('uvloop')}"


def compiled(name: str) -> Path:
    """One of our C programs, compiled when its source is newer."""
    source, program = HERE / f"{name}.c", PLACE / name
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        PLACE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-O2", "-Wall", "-o", program, source], check=True)
    return program


def get(port: int, path: str, key: str = SERVICE_KEY) -> Any:
    headers = {"authorization": f"Bearer {key}"}
    answer = httpx2.get(f"http://{HOST}:{port}{path}", headers=headers, trust_env=False, timeout=30)
    return answer.raise_for_status().json()


@contextlib.contextmanager
def running(
    command: list[object], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process until the block is left; its output is shown when it did not live so long."""
    log = folder / f"{Path(str(command[0])).name}-{time.monotonic_ns()}.log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            [str(part) for part in command], cwd=ROOT, env={**os.environ, **environment},
            stdout=output, stderr=output,
        )  # fmt: skip
    try:
        yield child
    finally:
        if child.poll() is not None:
            sys.stderr.write(log.read_text(errors="replace")[-4000:])
        child.terminate()
        try:
            child.wait(12)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _wait_for(way: Way) -> None:
    """Until a request is answered there."""
    ends, headers = time.monotonic() + 180, {"authorization": f"Bearer {way.key}"}
    body = {"model": "fake", "messages": [{"role": "user", "content": "Hello."}]}
    while time.monotonic() < ends:
        with contextlib.suppress(httpx2.TransportError):
            answer = httpx2.post(
                f"http://{HOST}:{way.port}/v1/chat/completions", json=body, headers=headers,
                trust_env=False, timeout=60,
            )  # fmt: skip
            if answer.status_code == 200:
                return
        time.sleep(0.2)
    raise TimeoutError(f"{way.name} was not ready within 180 s.")


def wait_until(happened: Callable[[], bool], seconds: float) -> bool:
    """Look again and again; False when it did not happen in time."""
    ends = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > ends:
            return False
        time.sleep(0.002)
    return True


def hang_up(way: Way, body: Json) -> socket.socket:
    """Send a request; who gets the connection may close it at any moment."""
    data = json.dumps(body, separators=(",", ":")).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {way.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    connection = socket.create_connection((HOST, way.port), timeout=30)
    connection.sendall(head.encode() + data)
    return connection
