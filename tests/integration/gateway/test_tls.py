"""The gateway with a certificate of the cluster's own authority, as a process."""

import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
import typer
from typer.testing import CliRunner

from hearth.cluster.certificates import issue, make_authority
from hearth.openai_api.testing import ScriptedModel
from moe_gateway.keys.cli import commands
from tests.integration.gateway.conftest import (
    CHAT,
    KEY,
    SERVICE_KEY,
    Lab,
    chat,
    instances_of,
    wait_until,
)

AUTHORIZED = {"authorization": f"Bearer {KEY}"}


class Served:
    """A gateway that speaks TLS at `address`; `ca` is the file of its authority."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder, self.authority = folder, make_authority("Hearth home")
        self.ca = folder / "ca.pem"
        self.ca.write_text(self.authority.certificate)
        self.certify()
        environment = {
            **{n: v for n, v in os.environ.items() if not n.startswith("MOE_GATEWAY_")},
            "MOE_GATEWAY_PORT": "0",
            "MOE_GATEWAY_KEY_FILES": f'["{folder / "key"}", "{folder / "service_key"}"]',
            "MOE_GATEWAY_TLS_CERT_FILE": str(folder / "cert.pem"),
            "MOE_GATEWAY_TLS_KEY_FILE": str(folder / "cert-key.pem"),
            "MOE_GATEWAY_TLS_CA_FILE": str(self.ca),
            **settings,
        }
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "moe_gateway"], env=environment, stdout=log, stderr=log
            )
        wait_until(lambda: "running on https://" in self.log.read_text() or self.is_over)
        self.address = self.log.read_text().partition("running on https://")[2].split()[0]

    @property
    def is_over(self) -> bool:
        return self.child.poll() is not None

    def certify(self, days: int = 365) -> None:
        """A certificate for 127.0.0.1, where the gateway looks for it. 0 days: it has expired."""
        pair = issue(self.authority, "machine1", ["127.0.0.1", "localhost"], days=days)
        (self.folder / "cert-key.pem").write_text(pair.key)
        (self.folder / "cert.pem").write_text(pair.certificate)

    def client(self, scheme: str = "https", *, ca: Path | None = None) -> httpx2.Client:
        return httpx2.Client(
            base_url=f"{scheme}://{self.address}", headers=AUTHORIZED, trust_env=False, timeout=60,
            verify=ssl.create_default_context(cafile=str(ca or self.ca)),
        )  # fmt: skip


Start = Callable[..., Served]


@pytest.fixture
def start(lab: Lab, tmp_path: Path) -> Iterator[Start]:
    """`start()` runs a gateway with TLS; `lab` has written the keys."""
    running: list[Served] = []

    def start(**settings: str) -> Served:
        running.append(Served(tmp_path, **settings))
        return running[-1]

    yield start
    for one in running:
        one.child.terminate()
        assert one.child.wait(60) == 0


def test_answers_come_encrypted_and_certified(lab: Lab, start: Start) -> None:
    """A key that crosses the network in clear is everybody's key."""
    instances = [lab.expert(ScriptedModel(key=SERVICE_KEY))]
    served = start(MOE_GATEWAY_INSTANCES=json.dumps(instances, default=str))

    with served.client() as client:
        wait_until(lambda: client.get("/health").status_code == 200)
        answer = client.post(CHAT, json=chat("Hello"))

    assert answer.status_code == 200
    stranger = served.client(ca=Path("/etc/ssl/certs/ca-certificates.crt"))
    with stranger, pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        stranger.get("/health")


def test_server_is_asked_only_with_a_certificate_of_the_cluster(lab: Lab, start: Start) -> None:
    """Who stands between would get prompts, and the key of the services."""
    instances = [lab.expert(ScriptedModel(key=SERVICE_KEY))]
    served = start(MOE_GATEWAY_INSTANCES=json.dumps(instances, default=str))
    behind = lab.at(f"https://{served.address}", expert="small")
    stranger = served.folder / "stranger.pem"
    stranger.write_text(make_authority("Hearth next door").certificate)

    trusting = lab.gateway(behind, tls_ca_file=served.ca)
    wary = lab.gateway(behind, tls_ca_file=stranger, ready=False)
    answer = trusting.post(CHAT, json=chat("Hello"))
    refused = wary.post(CHAT, json=chat("Hello"))

    assert answer.json()["choices"][0]["message"]["content"] == "Hello"
    assert refused.status_code == 503
    wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in instances_of(wary)[0]["reason"])
    served.certify(days=0)
    late = lab.gateway(behind, tls_ca_file=served.ca, ready=False)
    assert late.post(CHAT, json=chat("Hello")).status_code == 503
    wait_until(lambda: "certificate has expired" in instances_of(late)[0]["reason"])


def test_keys_are_managed_from_another_machine(start: Start, tmp_path: Path) -> None:
    """With the authority of the cluster; without it, nobody's key is sent to a stranger."""
    served = start(MOE_GATEWAY_KEY_STORE=str(tmp_path / "keys.db"))
    app = typer.Typer()
    commands(app)
    where = ["--gateway", f"https://{served.address}", "--key-file", str(tmp_path / "key")]
    trusting = [*where, "--ca-file", str(served.ca)]
    made = CliRunner().invoke(app, ["keys", "add", "tablet", *trusting])
    listed = CliRunner().invoke(app, ["keys", "list", "--json", *trusting])
    wary = CliRunner().invoke(app, ["keys", "list", *where])

    assert made.output.startswith("sk-hearth-"), made.output
    assert [key["name"] for key in json.loads(listed.output)["keys"]] == ["tablet"]
    assert (wary.exit_code, "CERTIFICATE_VERIFY_FAILED" in wary.output) == (1, True)


def test_who_speaks_plain_http_is_shown_the_way(start: Start) -> None:
    """People type an address without https; a reset connection would tell them nothing."""
    served = start()

    with served.client("http") as client:
        looked = client.get("/v1/models?all=1")
        sent = client.post(CHAT, json=chat("a key in clear"))
        followed = client.get("/health/live", follow_redirects=True)

    assert looked.status_code == 308
    assert looked.headers["location"] == f"https://{served.address}/v1/models?all=1"
    assert sent.status_code == 400
    assert sent.json()["error"]["code"] == "https_only"
    assert f"https://{served.address}{CHAT}" in sent.json()["error"]["message"]
    assert followed.status_code == 200


@pytest.mark.parametrize("first", ["cert.pem", "cert-key.pem"])
def test_renewed_certificate_is_taken_up_without_a_restart(start: Start, first: str) -> None:
    """Certificates are renewed each year; nobody restarts a gateway under load for it. Who comes
    when one of the two files is written is served with the old one."""
    served = start()
    before = ssl.get_server_certificate(_place(served))

    renewed = issue(served.authority, "machine1", ["127.0.0.1"])
    halves = (("cert.pem", renewed.certificate), ("cert-key.pem", renewed.key))
    for name, half in halves if first == "cert.pem" else reversed(halves):
        assert ssl.get_server_certificate(_place(served)) == before
        (served.folder / name).write_text(half)

    after = ssl.get_server_certificate(_place(served))
    assert after.strip() == renewed.certificate.strip() != before.strip()


def test_silent_and_odd_callers_hold_up_nobody(start: Start) -> None:
    """A port scanner connects and says nothing, or what no server understands."""
    served = start()
    odd = [_connect(served) for _ in range(20)]
    for number, one in enumerate(odd):
        one.sendall([b"", b"\x16", b"nonsense", b"GET / HTTP/1.0\r\n\r\n"][number % 4])

    with served.client() as client:
        answer = client.get("/health/live")

    assert answer.status_code == 200
    for one in odd:
        one.close()


def test_half_a_certificate_ends_the_start_with_one_sentence(tmp_path: Path) -> None:
    """Found at the start, not by the first caller."""
    (tmp_path / "key").write_text("k")
    environment = {
        "MOE_GATEWAY_KEY_FILES": f'["{tmp_path / "key"}"]',
        "MOE_GATEWAY_TLS_CERT_FILE": str(tmp_path / "cert.pem"),
    }
    found = subprocess.run(
        [sys.executable, "-m", "moe_gateway"], env=environment, capture_output=True, text=True
    )

    assert found.returncode == 1
    assert found.stderr.strip() == (
        "MOE_GATEWAY_TLS_KEY_FILE is not set: TLS needs a certificate and its private key."
    )


def _place(served: Served) -> tuple[str, int]:
    host, _, port = served.address.partition(":")
    return host, int(port)


def _connect(served: Served) -> socket.socket:
    return socket.create_connection(_place(served), timeout=60)
