"""Certificates of the cluster's own authority, as TLS itself judges them."""

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hearth.cluster.certificates import Pair, issue, make_authority, read, why_renew
from hearth.cluster.errors import CertificateUnusable

NAMES = ["localhost", "127.0.0.1", "server.dc1.consul"]
MONTH = timedelta(days=30)


@pytest.fixture(scope="module")
def authority() -> Pair:
    return make_authority("Home")


@pytest.fixture(scope="module")
def machine(authority: Pair) -> Pair:
    return issue(authority, "node1", NAMES)


def _handshake(folder: Path, authority: Pair, machine: Pair, name: str) -> str:
    (folder / "pair.pem").write_text(machine.certificate + machine.key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "pair.pem")
    server.load_verify_locations(cadata=authority.certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cadata=authority.certificate)
    client.load_cert_chain(folder / "pair.pem")
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with server.wrap_socket(theirs, server_side=True) as end:
                end.recv(1)
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours, server_hostname=name) as end:
            end.send(b"x")
            return str(end.version())
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize("name", NAMES)
def test_machine_is_trusted_under_each_of_its_names(
    tmp_path: Path, authority: Pair, machine: Pair, name: str
) -> None:
    """Both ends show the same certificate: agents are servers and clients at once."""
    assert _handshake(tmp_path, authority, machine, name) == "TLSv1.3"


def test_machine_of_another_authority_or_name_is_not_trusted(
    tmp_path: Path, authority: Pair, machine: Pair
) -> None:
    """A certificate is worth what it keeps out."""
    stranger = issue(make_authority("Home"), "node1", NAMES)

    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(tmp_path, authority, stranger, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(tmp_path, authority, machine, "elsewhere")


def test_good_certificate_is_kept(authority: Pair, machine: Pair) -> None:
    """A second run changes nothing, in whatever order the names come."""
    assert (
        why_renew(machine, authority.certificate, list(reversed(NAMES)), renew_before=MONTH) is None
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("names", "it is for 127.0.0.1, localhost"),
        ("end", "it ends on "),
        ("authority", "another authority signed it"),
        ("key", "the key belongs to another certificate"),
        ("rubbish", "no certificate"),
    ],
)
def test_certificate_is_made_anew_with_the_reason(
    authority: Pair, machine: Pair, change: str, words: str
) -> None:
    """The diff of a run says why a machine gets another certificate."""
    signer, pair, names = authority.certificate, machine, list(NAMES)
    if change == "names":
        names.append("more")
    if change == "end":
        pair = issue(authority, "node1", NAMES, days=20)
    if change == "authority":
        signer = make_authority("Home").certificate
    if change == "key":
        pair = Pair(machine.certificate, issue(authority, "node1", NAMES).key)
    if change == "rubbish":
        pair = Pair("rubbish", machine.key)

    assert words in str(why_renew(pair, signer, names, renew_before=MONTH))


def test_facts_tell_names_and_end(machine: Pair) -> None:
    """The probe of drift counts the days."""
    facts = read(machine.certificate)

    assert (facts.subject, facts.names) == ("node1", frozenset(NAMES))
    assert 824 < facts.days_left() <= 825
    assert facts.days_left(datetime.now(UTC) + timedelta(days=900)) < 0


def test_key_is_not_shown(machine: Pair) -> None:
    """A log line with a pair in it must not give the key away."""
    assert "PRIVATE" not in repr(machine)
    with pytest.raises(CertificateUnusable):
        read("rubbish")
