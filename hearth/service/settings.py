"""Settings of services from environment variables; unknown names are errors."""

import os
import ssl
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings

from hearth.service.tls_listener import Certificate


class SettingsError(Exception):
    """Correct the environment variable that the message names, then start again."""


class StrictSettings(BaseSettings):
    """Base of every service's settings: read from the environment once, then frozen.

    A subclass sets `model_config = SettingsConfigDict(env_prefix="NAME_", frozen=True)`.
    """

    @classmethod
    def load(cls) -> Self:
        """Read the environment.

        Raises `SettingsError` for an unknown name under the prefix (a misspelt name is never
        ignored), a missing setting, or an invalid value.
        """
        prefix = str(cls.model_config["env_prefix"])
        known = {f"{prefix}{name}".upper() for name in cls.model_fields}
        for name in sorted(os.environ):
            if name.startswith(prefix) and name not in known:
                raise SettingsError(_unknown(name, known))
        try:
            return cls()
        except ValidationError as error:
            raise SettingsError(_first_problem(prefix, error)) from error


class TlsSettings(StrictSettings):
    """Base of the settings of a service for users, which uses HTTPS if it has a certificate."""

    tls_cert_file: Path | None = Field(
        None, description="Certificate (PEM, with its chain); with it the service uses HTTPS."
    )
    tls_key_file: Path | None = Field(None, description="Private key of the certificate (PEM).")
    tls_ca_file: Path | None = Field(
        None,
        description="Certificate authority (PEM) of other services; without it, those of the"
        " system.",
    )

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that the service presents; None if it speaks plain HTTP.

        Raises `SettingsError` if one of the two files is not set, or they cannot be used.
        """
        chain, key = self.tls_cert_file, self.tls_key_file
        prefix = self.model_config["env_prefix"]
        if chain is None and key is None:
            return None
        if chain is None or key is None:
            missing = "TLS_CERT_FILE" if chain is None else "TLS_KEY_FILE"
            raise SettingsError(
                f"{prefix}{missing} is not set: TLS needs a certificate and its private key."
            )
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key)
        except OSError as error:
            raise SettingsError(
                f"The certificate {chain} cannot be used with the key {key}: {error}."
            ) from error
        return Certificate(chain, key)


def trusting(ca_file: Path | None) -> ssl.SSLContext:
    """Return a TLS client context that trusts only this CA; without one, the CAs of the system.

    Raises `SettingsError` if the file is not a certificate.
    """
    if ca_file is None:
        return _trusting_the_system()
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:
        raise SettingsError(f"The CA {ca_file} cannot be used: {error}.") from error


@cache
def _trusting_the_system() -> ssl.SSLContext:
    """Return the context for the CAs of the system, cached because loading them takes 20 ms."""
    return ssl.create_default_context()


def _unknown(name: str, known: set[str]) -> str:
    near = get_close_matches(name, known, n=1)
    question = f" Did you mean {near[0]}?" if near else ""
    return f"{name} is not a setting.{question}"


def _first_problem(prefix: str, error: ValidationError) -> str:
    problem = error.errors()[0]
    name = f"{prefix}{'.'.join(str(part) for part in problem['loc'])}".upper()
    if problem["type"] == "missing":
        return f"{name} is not set."
    return f"{name}: {problem['msg']}."


def read_key(path: Path) -> str:
    """Return the key in a file; raises `SettingsError` if it is empty or unreadable."""
    try:
        key = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"The key file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"The key file {path} is not a text file.") from error
    if not key:
        raise SettingsError(f"The key file {path} is empty.")
    return key
