"""What a cluster of the lab is asked: by its users, by those who look after it, by its agents."""

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2

from hearth.cluster.consul import Consul
from hearth.cluster.drift import services
from hearth.cluster.endpoint import Endpoint
from hearth.cluster.errors import ClusterError
from hearth.cluster.jobs.state import state_of
from hearth.cluster.nomad import Nomad
from hearth.lab.errors import ProgramFailed
from hearth.lab.lab import Lab
from hearth.lab.node import Node
from tests.lab.playbooks import secrets, vault

LONG: Final = 420.0
"""Nomad waits a minute before it takes a machine for lost; then a model has to load. Elections take
a minute where the machine of the tests is busy."""
Result = TypeVar("Result")


def authority() -> Path:
    """The certificate that the cluster's own ones are signed with."""
    return vault().with_name("cluster.ca.pem")


@contextmanager
def gateway(lab: Lab, asked: Node) -> Iterator[httpx2.Client]:
    """The gateway, where the names of the cluster say on one of its hosts that it is."""
    with _service(lab, asked, "moe-gateway", 8080) as client:
        yield client


@contextmanager
def agent(lab: Lab, asked: Node) -> Iterator[httpx2.Client]:
    """The agent and its web page, found in the same way."""
    with _service(lab, asked, "pipecatapp", 8000) as client:
        yield client


@contextmanager
def figures(lab: Lab, asked: Node) -> Iterator[httpx2.Client]:
    """Prometheus, found in the same way."""
    with _service(lab, asked, "prometheus", 9090) as client:
        yield client


@contextmanager
def _service(lab: Lab, asked: Node, name: str, port: int) -> Iterator[httpx2.Client]:
    address = asked.ssh(f"getent ahostsv4 {name}.service.consul").split()[0]
    headers = {"authorization": f"Bearer {secrets()['api_key']}"}
    trust = ssl.create_default_context(cafile=authority())
    with (
        lab.inside(),
        httpx2.Client(
            base_url=f"https://{address}:{port}", headers=headers, verify=trust, timeout=120
        ) as client,
    ):
        yield client


def complete(client: httpx2.Client, model: str = "auto") -> httpx2.Response:
    """A short answer with its headers."""
    body = {
        "model": model, "max_tokens": 12,
        "messages": [{"role": "user", "content": "Say hello."}],
    }  # fmt: skip
    return client.post("/v1/chat/completions", json=body).raise_for_status()


def answer(client: httpx2.Client, model: str = "auto") -> str:
    """The words of a short answer."""
    return str(complete(client, model).json()["choices"][0]["message"]["content"])


def chat(lab: Lab, asked: Node, model: str = "auto") -> str:
    """A short answer, as somebody gets it who asks again for as long as there is none."""

    def ask() -> str:
        with gateway(lab, asked) as client:
            return answer(client, model)

    return patiently(ask)


def expert(client: httpx2.Client, name: str) -> dict[str, Any]:
    """What the gateway tells of an expert."""
    experts: list[dict[str, Any]] = client.get("/api/experts").raise_for_status().json()["experts"]
    return next(one for one in experts if one["name"] == name)


def machine_of(client: httpx2.Client, name: str) -> str:
    """The machine that a healthy instance of an expert runs on."""
    return str(next(one["machine"] for one in expert(client, name)["instances"] if one["healthy"]))


@contextmanager
def agents(lab: Lab, asked: Node) -> Iterator[tuple[Consul, Nomad]]:
    """Consul and Nomad of one host, with the tokens that may do everything."""
    with (
        lab.inside(),
        Consul(_endpoint(asked, 8501, "consul_management_token")) as consul,
        Nomad(_endpoint(asked, 4646, "nomad_management_token")) as nomad,
    ):
        yield consul, nomad


def _endpoint(asked: Node, port: int, token: str) -> Endpoint:
    return Endpoint(
        f"https://{asked.address}:{port}",
        token=str(secrets()[token]),
        ca_file=vault().with_name("cluster.ca.pem"),
    )


def settle(lab: Lab) -> None:
    """Return when every machine takes jobs, every job runs, no check fails and somebody answers."""
    asked = lab.nodes()[0]

    def look() -> bool:
        odd = unsettled(lab, asked)
        if odd:
            raise Unsettled(", ".join(odd))
        return True

    patiently(look)
    assert chat(lab, asked)


class Unsettled(Exception):
    """What is not yet as it should be."""


def unsettled(lab: Lab, asked: Node) -> list[str]:
    """What is not as it should be, as one host sees it.

    Entries that nothing stands behind are what heal_cluster.yaml is for, and left to it.
    """
    names = {node.name for node in lab.nodes()}
    with agents(lab, asked) as (consul, nomad):
        alive = {member.name for member in consul.members() if member.alive}
        ready = {n.name for n in nomad.nodes() if (n.status, n.eligible) == ("ready", "eligible")}
        jobs = [row.id for row in nomad.jobs() if row.status != "dead"]
        stale = left_over(consul, nomad)
        return [
            *(f"{name} is no member of Consul" for name in names - alive),
            *(f"{name} takes no jobs" for name in names - ready),
            *(f"{job} does not run" for job in jobs if not _runs(nomad, job)),
            *(
                f"{check.node} {check.service or check.name}"
                for check in consul.checks()
                if f"{check.node}:{check.service_id}" not in stale
            ),
            *(f"{left} runs without Nomad" for left in orphans(lab, nomad)),
        ]


ALLOCATIONS = """
pgrep --full --list-full ' (executor|logmon) ' | grep -o 'alloc/[0-9a-f-]\\{36\\}' | cut -d / -f 2
docker ps --format '{{.Names}}' | grep -o '[0-9a-f-]\\{36\\}$'
true
"""


def orphans(lab: Lab, nomad: Nomad) -> set[str]:
    """`machine:allocation` of what goes on after Nomad has forgotten it, or takes it for ended."""
    known = {
        f"{one.node}:{one.id}"
        for job in nomad.jobs()
        for one in nomad.allocations(job.id)
        if one.client_status not in {"complete", "failed", "lost"}
    }
    found = {
        f"{node.name}:{line}" for node in lab.nodes() for line in node.ssh(ALLOCATIONS).split()
    }
    return found - known


def left_over(consul: Consul, nomad: Nomad) -> set[str]:
    """`machine:id` of entries of services that no longer run.

    The lab's Consul takes an entry away with the token that registered it. Nomad ends that one with
    the allocation, and where the machine is busy it is sometimes ended first.
    """
    return {finding.fix.target for finding in services.diagnose(consul, nomad)}


def _runs(nomad: Nomad, job: str) -> bool:
    state = state_of(nomad, job)
    if state.job.get("ParameterizedJob") or state.job.get("ParentID"):
        return True
    if state.wanted is not None:
        return len(state.running) >= state.wanted
    return len(state.running) >= len([n for n in nomad.nodes() if n.status == "ready"])


def run_of(client: httpx2.Client, document: str) -> dict[str, Any]:
    """A run of a workflow, once it has ended."""
    started = client.post("/api/runs", json={"document": document}).raise_for_status().json()

    def ended() -> dict[str, Any]:
        run: dict[str, Any] = client.get(f"/api/runs/{started['run']}").raise_for_status().json()
        if run["status"] not in {"done", "failed", "cancelled"}:
            raise Unsettled(f"the run is {run['status']}")
        return run

    return patiently(ended)


@contextmanager
def asked(lab: Lab, node: Node) -> Iterator[list[str]]:
    """Somebody who asks one question after the other; the answers so far.

    Who is not let in, or is told to ask again, does. Fails where a question that was taken stayed
    without an answer.
    """
    answers: list[str] = []
    failures: list[Exception | AssertionError] = []
    enough = threading.Event()

    def ask() -> None:
        while not enough.wait(1):
            try:
                answers.append(patiently(lambda: _answered(lab, node)))
            except (AssertionError, httpx2.HTTPError, OSError) as error:
                failures.append(error)
                return

    person = threading.Thread(target=ask)
    person.start()
    try:
        yield answers
    finally:
        enough.set()
        person.join()
    assert failures == []


def _answered(lab: Lab, node: Node) -> str:
    with gateway(lab, node) as client:
        try:
            return answer(client)
        except httpx2.ConnectError:
            raise
        except httpx2.HTTPStatusError as error:
            if "retry-after" in error.response.headers:
                raise
            raise AssertionError(f"lost: {error.response.text}") from error
        except httpx2.HTTPError as error:
            raise AssertionError(f"lost: {error!r}") from error


def patiently(ask: Callable[[], Result], seconds: float = LONG) -> Result:
    """Ask again while the cluster finds itself; fails with the last reason."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        # Names without an answer, too: the servers elect a leader, or the gateway moves.
        except (httpx2.HTTPError, ClusterError, ProgramFailed, StopIteration, Unsettled) as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"still after {seconds:.0f} s: {error!r}") from error
            time.sleep(2)
