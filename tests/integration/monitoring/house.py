"""The services that Prometheus watches, each a real process that can be stopped by its name."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx2

from hearth.local.embedded import embedded_services
from hearth.local.options import Options
from hearth.local.process.service import Service
from hearth.local.state.keys import ensure_key
from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from hearth.openai_api.testing import ScriptedModel
from hearth.service.names import LLAMA_EXPERT, MOE_GATEWAY, PIPECATAPP, expert_service
from hearth.service.state import StateDir
from tests.conftest import served
from tests.integration.local.conftest import free_port_base, wait_for
from tests.integration.monitoring.agents import NODE, Consul, end
from tests.integration.monitoring.prometheus import Target
from tests.ports import free_ports
from tests.rules.tree import ROOT

NODE_EXPORTER = "node-exporter"
CONSUL = "consul"
LAUNCHER = "expert-launcher"
CALLERS = 6
"""More than the expert has slots, so that some wait."""


class House:
    """Expert, gateway and agent as `hearth up` starts them, Consul and node-exporter.

    The gateway has a second server of the same expert, which is always busy: it is passed over.
    """

    def __init__(self, folder: Path, node_exporter: str) -> None:
        self.folder = folder
        state = StateDir(folder / "state")
        state.root.mkdir()
        for file in (state.key_file, state.service_key_file):
            ensure_key(file)
        self.key = state.key_file.read_text(encoding="ascii").strip()
        self.expert_key = state.service_key_file.read_text(encoding="ascii")
        self.options = Options(
            state,
            free_port_base(),
            "xllamacpp",
            speech=False,
            speech_models={},
            speech_language=None,
            llama_server_binary=None,
            state_option="",
        )
        self.exporter_port, self.launcher_port = free_ports(2)
        self._exporter = node_exporter
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_all(self) -> None:
        services = self._services()
        for service in services:
            self._start(service.name, service.command, service.environment)
        # Debian's leaves out loopback, where the test's traffic goes.
        listen = f"--web.listen-address=127.0.0.1:{self.exporter_port}"
        self._start(
            NODE_EXPORTER, (self._exporter, listen, "--collector.netdev.device-exclude=^none$")
        )
        self._consul = self._stack.enter_context(Consul(self.folder))
        for service in services:
            wait_for(partial(self._healthy, f"{service.url}/health"), service.name, 120)

    def __exit__(self, *_: object) -> None:
        for name in list(self._running):
            self.stop(name)
        self._stack.close()

    def stop(self, name: str) -> None:
        """End the service's process, and wait until it is gone."""
        if name == CONSUL:
            self._consul.stop()
        else:
            end(self._running.pop(name))

    def targets(self) -> dict[str, Sequence[Target]]:
        """What the job's template writes from Consul's catalogue."""
        named = {
            PIPECATAPP: self.options.web,
            MOE_GATEWAY: self.options.gateway,
            NODE_EXPORTER: f"http://127.0.0.1:{self.exporter_port}",
        }
        launcher = f"http://127.0.0.1:{self.launcher_port}"
        return {
            "services": [
                *(_target(url, job=name) for name, url in named.items()),
                _target(launcher, job=LAUNCHER, expert=FALLBACK),
            ],
            "experts": [_target(self.options.expert, expert=FALLBACK, model=FALLBACK)],
            "consul": [_target(self._consul.url)],
        }

    def say_once(self) -> None:
        """One chat and one run: from now on, there is something to count."""
        with self._caller() as http:
            self._chat(http)
            self._run(http)

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Chats, runs with followers, and a service that comes: as long as the block runs."""
        self._consul.register("something", 9)
        over = threading.Event()

        def again(act: Callable[[httpx2.Client], None]) -> None:
            while not over.is_set():
                act(http)

        with self._caller() as http, ThreadPoolExecutor(CALLERS + 1) as callers:
            acts = [self._run, *[self._chat] * CALLERS]
            going = [callers.submit(again, act) for act in acts]
            try:
                yield
            finally:
                over.set()
        for one in going:
            one.result()

    def _caller(self) -> httpx2.Client:
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx2.Client(headers=headers, timeout=120, trust_env=False)

    def _chat(self, http: httpx2.Client) -> None:
        body = {
            "model": FALLBACK, "stream": True, "max_tokens": 8,
            "messages": [{"role": "user", "content": "Tell me of the sea."}],
        }  # fmt: skip
        http.post(f"{self.options.api}/chat/completions", json=body).raise_for_status()

    def _run(self, http: httpx2.Client) -> None:
        body = {"workflow": "summarize", "inputs": {"text": "Hello.", "max_tokens": 16}}
        runs = f"{self.options.web}/api/runs"
        run = http.post(runs, json=body).raise_for_status().json()["run"]
        http.get(f"{runs}/{run}/events").raise_for_status()
        self._consul.instances("something")

    def _services(self) -> list[Service]:
        catalogue = Catalogue.load()
        cached = ModelStore(ROOT / ".cache" / "models")
        pull(catalogue[FALLBACK], cached)
        shutil.copytree(cached.root / FALLBACK, self.options.state.models / FALLBACK)
        expert, gateway, agent = embedded_services(self.options, [catalogue[FALLBACK]])
        return [self._with_metrics(expert), self._with_busy_server(gateway), agent]

    def _with_metrics(self, expert: Service) -> Service:
        """The launcher's own figures, as in the cluster."""
        own = {"LLAMA_EXPERT_METRICS_PORT": str(self.launcher_port)}
        return replace(expert, environment={**expert.environment, **own})

    def _with_busy_server(self, gateway: Service) -> Service:
        busy = ScriptedModel(FALLBACK)
        busy.when(lambda _: True).refuse(503, "All slots are taken.")
        url = self._stack.enter_context(served(busy.app))
        environment = dict(gateway.environment)
        instances: list[dict[str, Any]] = json.loads(environment["MOE_GATEWAY_INSTANCES"])
        instances.insert(0, {**instances[0], "url": url})
        environment["MOE_GATEWAY_INSTANCES"] = json.dumps(instances)
        return replace(gateway, environment=environment)

    def _healthy(self, url: str) -> bool:
        for name, process in self._running.items():
            if process.poll() is not None:
                raise RuntimeError((self.folder / f"{name}.log").read_text()[-3000:])
        try:
            return httpx2.get(url, timeout=10, trust_env=False).status_code == 200
        except httpx2.TransportError:
            return False

    def _start(self, name: str, command: Sequence[str], environment: Any = None) -> None:
        with (self.folder / f"{_job(name)}.log").open("wb") as log:
            self._running[_job(name)] = subprocess.Popen(
                command, env=environment or os.environ, stdout=log, stderr=log, cwd=self.folder
            )


def _job(name: str) -> str:
    """The `job` under which Prometheus knows a service: all experts are one."""
    return LLAMA_EXPERT if name == expert_service(FALLBACK) else name


def _target(url: str, **labels: str) -> Target:
    return {"targets": [url.removeprefix("http://")], "labels": {"node": NODE, **labels}}
