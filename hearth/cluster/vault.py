"""Ansible's vault format, 1.1 and 1.2, for files that Hearth writes and Ansible reads.

Importing Ansible for this would create folders in the user's home and read Ansible's
configuration. The format is three hexadecimal lines, made hexadecimal once more: salt, HMAC-SHA256
and ciphertext. PBKDF2 (HMAC-SHA256, 10,000 rounds) gives two keys of 32 bytes and the first counter
block; AES-256 runs in counter mode over the text, padded by PKCS #7 (Ansible's guide,
"Vault payload format 1.1 - 1.2").
"""

import os
from binascii import Error as HexError
from binascii import hexlify, unhexlify
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

HEAD: Final = b"$ANSIBLE_VAULT;"
COLUMNS: Final = 80
BLOCK: Final = 128
ROUNDS: Final = 10_000


class VaultError(Exception):
    """The text is not a valid vault, or its password is different."""


def is_vault(text: bytes) -> bool:
    """Whether this is a vault at all, whatever the password."""
    return text.startswith(HEAD)


def close(plain: bytes, password: bytes) -> bytes:
    """A vault with that content; another one each time, because the salt is random."""
    salt = os.urandom(32)
    keys = _Keys(password, salt)
    padder = padding.PKCS7(BLOCK).padder()
    cipher = keys.cipher().encryptor()
    body = cipher.update(padder.update(plain) + padder.finalize()) + cipher.finalize()
    payload = hexlify(b"\n".join(hexlify(part) for part in (salt, keys.digest(body), body)))
    lines = [payload[at : at + COLUMNS] for at in range(0, len(payload), COLUMNS)]
    return b"\n".join([HEAD + b"1.1;AES256", *lines, b""])


def reveal(vault: bytes, password: bytes) -> bytes:
    """The content; raises `VaultError`."""
    head, _, payload = vault.partition(b"\n")
    if not is_vault(head) or head.split(b";")[2:3] != [b"AES256"]:
        raise VaultError("it is not a file that ansible-vault encrypted")
    try:
        salt, digest, body = map(unhexlify, unhexlify(b"".join(payload.split())).split(b"\n"))
    except (HexError, ValueError) as error:
        raise VaultError("it is damaged") from error
    keys = _Keys(password, salt)
    try:
        keys.verify(body, digest)
    except InvalidSignature as error:
        raise VaultError("the vault password does not open it") from error
    unpadder = padding.PKCS7(BLOCK).unpadder()
    cipher = keys.cipher().decryptor()
    return unpadder.update(cipher.update(body) + cipher.finalize()) + unpadder.finalize()


class _Keys:
    def __init__(self, password: bytes, salt: bytes) -> None:
        derived = PBKDF2HMAC(hashes.SHA256(), length=80, salt=salt, iterations=ROUNDS)
        key = derived.derive(password)
        self._cipher_key, self._mac_key, self._counter = key[:32], key[32:64], key[64:]

    def cipher(self) -> Cipher[modes.CTR]:
        return Cipher(algorithms.AES(self._cipher_key), modes.CTR(self._counter))

    def digest(self, body: bytes) -> bytes:
        mac = HMAC(self._mac_key, hashes.SHA256())
        mac.update(body)
        return mac.finalize()

    def verify(self, body: bytes, digest: bytes) -> None:
        mac = HMAC(self._mac_key, hashes.SHA256())
        mac.update(body)
        mac.verify(digest)
