"""The cluster's own certificate authority and the certificates of its machines.

Keys are ECDSA on P-256, which Consul, Nomad, Prometheus and every browser accept. Validity begins a
day early, so that a machine whose clock is a little behind trusts them from the first minute.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hearth.cluster.errors import CertificateUnusable

AUTHORITY_DAYS: Final = 3650
HOST_DAYS: Final = 825
"""The longest validity that browsers of Apple accept from an authority of one's own."""
EARLY: Final = timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: str
    key: str = field(repr=False)


@dataclass(frozen=True)
class Facts:
    """The contents of a certificate: its subject, its names and addresses, and when it expires."""

    subject: str
    names: frozenset[str]
    not_after: datetime
    serial: int

    def days_left(self, now: datetime | None = None) -> float:
        """Days until it expires; negative afterwards."""
        return (self.not_after - (now or datetime.now(UTC))) / timedelta(days=1)


def make_authority(name: str, *, days: int = AUTHORITY_DAYS) -> Pair:
    """A new authority that may sign machines, but no other authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        _builder(subject, subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Pair(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def issue(authority: Pair, name: str, names: Sequence[str], *, days: int = HOST_DAYS) -> Pair:
    """A certificate for server and client use; `names` are DNS names and IP addresses."""
    issuer, issuer_key = _certificate(authority.certificate), _key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = x509.SubjectAlternativeName([_alternative(entry) for entry in names])
    uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = (
        _builder(_name(name), issuer.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(alternatives, critical=False)
        .add_extension(uses, critical=False)
        .add_extension(issuer_id, critical=False)
    )
    return Pair(_pem(builder.sign(issuer_key, hashes.SHA256())), _key_pem(key))


def read(certificate: str) -> Facts:
    """Parse a certificate. Raises `CertificateUnusable`."""
    parsed = _certificate(certificate)
    try:
        extension = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [str(entry.value) for entry in extension]
    except x509.ExtensionNotFound:
        names = []
    common = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Facts(
        subject=str(common[0].value) if common else "",
        names=frozenset(names),
        not_after=parsed.not_valid_after_utc,
        serial=parsed.serial_number,
    )


def why_renew(
    pair: Pair, authority: str, names: Sequence[str], *, renew_before: timedelta
) -> str | None:
    """Return why this certificate must be replaced; None if it is still valid.

    `renew_before`: how long before its end a certificate is replaced.
    """
    try:
        facts, key = read(pair.certificate), _key(pair.key)
        certificate, signer = _certificate(pair.certificate), _certificate(authority)
    except CertificateUnusable as error:
        return str(error)
    if certificate.public_key() != key.public_key():
        return "the key belongs to another certificate"
    if facts.names != _normal(names):
        return f"it is for {', '.join(sorted(facts.names))}"
    if facts.days_left() <= renew_before / timedelta(days=1):
        return f"it ends on {facts.not_after:%Y-%m-%d}"
    return None if _signed_by(certificate, signer) else "another authority signed it"


def _signed_by(certificate: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(signer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC).replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLY)
        .not_valid_after(now + timedelta(days=days))
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(entry: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(entry))
    except ValueError:
        return x509.DNSName(entry)


def _normal(names: Sequence[str]) -> frozenset[str]:
    return frozenset(str(_alternative(entry).value) for entry in names)


def _certificate(pem: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError as error:
        raise CertificateUnusable(
            f"There is no certificate in what should be one: {error}"
        ) from error


def _key(pem: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError) as error:
        raise CertificateUnusable("There is no private key in what should be one.") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateUnusable("The private key is of another kind than ours (P-256).")
    return key


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
