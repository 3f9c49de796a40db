"""A real Prometheus with the configuration that the role renders, and questions to it."""

import math
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import httpx2
from jinja2 import Environment, StrictUndefined
from ruamel.yaml import YAML

from tests.ports import free_ports
from tests.rules.tree import ROOT

ROLE = ROOT / "ansible" / "roles" / "prometheus"
INTERVAL = 1
WINDOW = 4 * INTERVAL
"""What Grafana takes for `$__rate_interval`: four times the interval of the data source."""

Labels = frozenset[tuple[str, str]]
Values = dict[Labels, float]
Target = dict[str, object]


def defaults() -> dict[str, object]:
    """The role's own defaults that are plain values."""
    found: dict[str, object] = YAML(typ="safe").load(ROLE / "defaults" / "main.yaml")
    return {name: value for name, value in found.items() if "{{" not in str(value)}


def configuration(**variables: object) -> str:
    """`prometheus.yaml` as the role's template gives it."""
    environment = Environment(
        trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined, autoescape=False
    )
    template = (ROLE / "templates" / "prometheus.yaml.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(**{**defaults(), **variables})


class Asking:
    """Questions to a Prometheus."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._http = httpx2.Client(base_url=f"http://{address}", timeout=60, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def ask(self, expression: str) -> Values:
        """The value of every series now. What is not a number is no value: Grafana draws none."""
        expression = expression.replace("$__rate_interval", f"{WINDOW}s")
        try:
            answer = self._http.get("/api/v1/query", params={"query": expression})
        except httpx2.TransportError:
            return {}
        if answer.status_code == httpx2.codes.SERVICE_UNAVAILABLE:
            return {}  # it answers so while it reads its log at its start
        body = answer.json()
        assert body["status"] == "success", (expression, body)
        return {
            frozenset(row["metric"].items()): value
            for row in body["data"]["result"]
            if not math.isnan(value := float(row["value"][1]))
        }


class Prometheus(Asking):
    """One Prometheus in a folder laid out as a task's: local/ and secrets/."""

    window = WINDOW

    def __init__(
        self,
        folder: Path,
        program: str,
        targets: Mapping[str, Sequence[Target]],
        expert_key: str,
    ) -> None:
        self.folder, self.program, self.targets = folder, program, targets
        (port,) = free_ports(1)
        super().__init__(f"127.0.0.1:{port}")
        local = folder / "local"
        (local / "targets").mkdir(parents=True)
        (folder / "secrets").mkdir()
        (folder / "secrets" / "expert_key").write_text(expert_key, encoding="utf-8")
        text = configuration(
            prometheus_tls=False,
            prometheus_acl=False,
            prometheus_ca_file="",
            prometheus_cluster="test",
            prometheus_scrape_interval=f"{INTERVAL}s",
        )
        (local / "prometheus.yaml").write_text(text, encoding="utf-8")
        (local / "rules.yaml").write_bytes((ROLE / "files" / "rules.yaml").read_bytes())
        for name in ("services", "experts", "nomad", "consul"):
            YAML().dump(list(targets.get(name, [])), local / "targets" / f"{name}.yaml")

    def __enter__(self) -> Self:
        with (self.folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    self.program,
                    f"--config.file={self.folder}/local/prometheus.yaml",
                    f"--storage.tsdb.path={self.folder}/data",
                    f"--web.listen-address={self.address}",
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)
        self.close()

    def wait_for_targets(self, seconds: float = 120) -> None:
        """Return when every target answers."""
        wanted = sum(len(list(found)) for found in self.targets.values())
        deadline = time.monotonic() + seconds
        while sum(self.ask("up").values()) < wanted:
            if time.monotonic() > deadline or self._process.poll() is not None:
                log = (self.folder / "prometheus.log").read_text()[-3000:]
                raise RuntimeError(f"{self.ask('up')}\n{log}")
            time.sleep(0.2)
