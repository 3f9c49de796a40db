"""Sign bundles with the key of this instance, and remember whose bundles a person trusts.

Keys are Ed25519 (RFC 8032). The fingerprint of a public key is the start of its SHA-256.
"""

import base64
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from pydantic import BaseModel, ValidationError

from hearth.files import write_atomic

KEY: Final = "bundle_key"
"""File of the private key in the state directory: 32 bytes in Base64."""
TRUSTED: Final = "trusted_keys.json"


class WrongSignature(ValueError):
    """The bundle was changed after it was signed, or has no signature of a known kind."""


class Signature(BaseModel):
    """The signature of the bytes of a manifest."""

    algorithm: str = "ed25519"
    key: str
    """The public key in Base64."""
    signature: str


class Keys:
    """The key of an instance, and the keys that it trusts, in its state directory."""

    def __init__(self, root: Path) -> None:
        self._key, self._trusted = root / KEY, root / TRUSTED

    def sign(self, content: bytes) -> Signature:
        """Sign with the key of this instance, which is made at the first time."""
        private = self._private()
        return Signature(key=_public(private), signature=_text(private.sign(content)))

    def is_trusted(self, key: str) -> bool:
        """Return whether a public key is this instance's or was trusted by a person."""
        own, trusted = self.listed()
        return key == own or key in trusted

    def trust(self, key: str) -> None:
        """Trust the bundles of a public key from now on."""
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        trusted = {**self._read(), key: moment}
        write_atomic(self._trusted, json.dumps(trusted, indent=1), mode=0o600)

    def listed(self) -> tuple[str | None, dict[str, str]]:
        """Return the public key of this instance, None if it has signed nothing yet, and the
        trusted keys with the times since when they are."""
        return (_public(self._private()) if self._key.exists() else None), self._read()

    def _private(self) -> Ed25519PrivateKey:
        if not self._key.exists():
            made = Ed25519PrivateKey.generate()
            raw = made.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
            write_atomic(self._key, _text(raw), mode=0o600)
        return Ed25519PrivateKey.from_private_bytes(
            base64.b64decode(self._key.read_text(encoding="ascii"))
        )

    def _read(self) -> dict[str, str]:
        if not self._trusted.exists():
            return {}
        found: dict[str, str] = json.loads(self._trusted.read_text(encoding="utf-8"))
        return found


def verified(signed: bytes, content: bytes) -> str:
    """Return the public key that has signed `content`; `signed` is a `Signature` in JSON.

    Raises `WrongSignature`.
    """
    try:
        said = Signature.model_validate_json(signed)
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(said.key, validate=True))
        signature = base64.b64decode(said.signature, validate=True)
    except (ValidationError, ValueError) as error:
        raise WrongSignature("The bundle has no valid signature.") from error
    try:
        key.verify(signature, content)
    except InvalidSignature as error:
        raise WrongSignature(
            "The bundle was changed after it was signed. Ask its sender for it again."
        ) from error
    return said.key


def fingerprint(key: str) -> str:
    """Return a short form of a public key that people can compare: `3F2A-90B1-…`."""
    digest = hashlib.sha256(base64.b64decode(key)).hexdigest()[:24].upper()
    return "-".join(digest[at : at + 4] for at in range(0, len(digest), 4))


def _public(private: Ed25519PrivateKey) -> str:
    return _text(private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
