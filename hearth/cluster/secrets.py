"""The secrets of a cluster: created on the controller and stored in a vault before their use.

The file is YAML inside Ansible's vault, so `ansible-vault view` shows it and a play reads it as
variables. Manual changes and comments in it are preserved: new secrets are
appended. It is replaced atomically, and only its owner can read it.
"""

import base64
import secrets
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import LiteralScalarString

from hearth.cluster import vault
from hearth.cluster.certificates import make_authority
from hearth.cluster.errors import SecretsUnusable
from hearth.files import write_atomic

PRIVATE: Final = 0o600
HEAD: Final = (
    "# The secrets of this cluster, made by playbook.yaml. Keep a copy where you keep keys.\n"
)

BEFORE: Final = "_before"
"""Suffix of the names of replaced values, which are kept until the agents use the new ones."""

Secret = str | dict[str, str]


def _authority() -> dict[str, str]:
    pair = make_authority("Hearth cluster authority")
    return {"certificate": pair.certificate, "key": pair.key}


KINDS: Final[Mapping[str, Callable[[], Secret]]] = {
    "api_key": lambda: f"sk-hearth-{secrets.token_hex(24)}",
    "authority": _authority,
    "gossip_key": lambda: base64.b64encode(secrets.token_bytes(32)).decode(),
    "password": lambda: secrets.token_urlsafe(24),
    "token": lambda: str(uuid.UUID(bytes=secrets.token_bytes(16), version=4)),
}
"""Kind -> how one is made. `authority` is a mapping of `certificate` and `key`, both PEM;
`gossip_key` fits `encrypt` of Consul and Nomad; `token` is an id for their access control."""


@dataclass(frozen=True)
class Ensured:
    """`made`: the names of created secrets. `values`: every requested secret."""

    made: list[str]
    values: dict[str, Any]


class SecretFile:
    """`SecretFile(path, password).ensure({"consul_gossip_key": "gossip_key"})`"""

    def __init__(self, path: Path, password: str) -> None:
        self.path = path
        self._password = password.strip().encode()
        if not self._password:
            raise SecretsUnusable(path, "the vault password is empty")

    def read(self) -> dict[str, Any]:
        """Every secret by name; empty when there is no file yet. Raises `SecretsUnusable`."""
        return self._parse(self._open())

    def ensure(self, wanted: Mapping[str, str], *, write: bool = True) -> Ensured:
        """Create the missing secrets of name -> kind, and write them before they are returned.

        An existing secret is never replaced. `write=False` only states which would be created.
        """
        text = self._open()
        existing = self._parse(text)
        missing = {name: kind for name, kind in wanted.items() if name not in existing}
        for name, kind in missing.items():
            if kind not in KINDS:
                raise SecretsUnusable(
                    self.path, f"{name} is of no known kind, {kind} (known: {', '.join(KINDS)})"
                )
        made = {name: KINDS[kind]() for name, kind in missing.items()}
        if made and write:
            self._write(self._extended(text, existing, made))
        elif text is not None and write:
            self.path.chmod(PRIVATE)
        return Ensured(sorted(made), {name: (existing | made)[name] for name in wanted})

    def renew(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """Create new values for secrets (name -> kind); return the new content of the file.

        Each old value is kept as `NAME_before` until it is removed. If there is one already, an
        interrupted call created the new value, which is kept. The certificate of a new authority is
        followed by the old certificate: both are trusted for a while.
        """
        existing = self.read()
        due = {name: kind for name, kind in wanted.items() if f"{name}{BEFORE}" not in existing}
        made = {name: _followed_by(KINDS[kind](), existing[name]) for name, kind in due.items()}
        return self.replace(made | {f"{name}{BEFORE}": existing[name] for name in due})

    def replace(
        self, values: Mapping[str, Secret], *, forgotten: Collection[str] = ()
    ) -> dict[str, Any]:
        """Replace values and remove the `forgotten` names; return the new content of the file."""
        yaml = YAML()
        text = self._open()
        self._parse(text)
        content = yaml.load(text or HEAD) or {}
        content.update({name: _legible(value) for name, value in values.items()})
        for name in forgotten:
            content.pop(name, None)
        stream = StringIO()
        yaml.dump(content, stream)
        self._write(stream.getvalue())
        return self.read()

    def _open(self) -> str | None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SecretsUnusable(self.path, error.strerror or "it cannot be read") from error
        if not vault.is_vault(content):
            raise SecretsUnusable(
                self.path, f"it is not encrypted: run `ansible-vault encrypt {self.path}`"
            )
        try:
            return vault.reveal(content, self._password).decode()
        except vault.VaultError as error:
            raise SecretsUnusable(self.path, str(error)) from error

    def _parse(self, text: str | None) -> dict[str, Any]:
        try:
            content = YAML(typ="safe").load(text or "") or {}
        except YAMLError as error:
            raise SecretsUnusable(self.path, "its content is not valid YAML") from error
        if not isinstance(content, dict):
            raise SecretsUnusable(self.path, "its content is not a mapping of names to values")
        return content

    def _extended(self, text: str | None, existing: dict[str, Any], made: dict[str, Secret]) -> str:
        """Append the new secrets to the text. Raises `SecretsUnusable` for invalid YAML."""
        whole = _with_newline(text or HEAD) + _dump(made)
        try:
            fits = YAML(typ="safe").load(whole) == existing | made
        except YAMLError:
            fits = False
        if not fits:
            raise SecretsUnusable(
                self.path,
                "nothing can be added below what it holds: write one name to a line, without braces"
                " (`ansible-vault edit`)",
            )
        return whole

    def _write(self, text: str) -> None:
        try:
            write_atomic(self.path, vault.close(text.encode(), self._password), mode=PRIVATE)
        except OSError as error:
            raise SecretsUnusable(self.path, error.strerror or "it cannot be written") from error


def _followed_by(made: Secret, before: Secret) -> Secret:
    if isinstance(made, str) or isinstance(before, str):
        return made
    return made | {"certificate": made["certificate"] + before["certificate"]}


def _dump(made: Mapping[str, Secret]) -> str:
    yaml = YAML()
    yaml.default_flow_style = False
    stream = StringIO()
    yaml.dump({name: _legible(value) for name, value in made.items()}, stream)
    return _with_newline(stream.getvalue())


def _legible(value: Secret) -> Any:
    if isinstance(value, dict):
        return {name: LiteralScalarString(part) for name, part in value.items()}
    return value


def _with_newline(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
