"""The values of the secrets of projects.

A project names a secret and the location of its value: `kept:name` (a file that `hearth secrets
set` creates), `env:NAME` (a variable of the service) or `file:/path`. Values are read when a
program is started, and are never written to a document, ledger, log or view.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hearth.files import write_atomic
from pipecatapp.records.nodes import nodes_of
from pipecatapp.workflow import Diagnostic, Workflow

NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")
LONGEST: Final = 64 * 1024
"""Bytes of a secret."""


class SecretMissing(LookupError):
    """The value of a secret is missing; the message has its location and the remedy."""


class Secrets:
    """The values of secrets; stored ones are files of mode 0600 in `folder`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, environment

    def names(self) -> list[str]:
        """Return the names of the stored secrets."""
        return sorted(file.name for file in self._folder.glob("[!.]*"))

    def keep(self, name: str, value: str) -> None:
        """Keep a value, in the place of one that is there; raises `ValueError`."""
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is not a valid name of a secret: use lower "
                "case letters, digits, - and _."
            )
        if not value or "\0" in value or len(value.encode()) > LONGEST:
            raise ValueError(f"A secret has 1 to {LONGEST} bytes, and none of them is zero.")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(self._folder / name, value, mode=0o600)

    def remove(self, name: str) -> None:
        """Forget a value; raises `SecretMissing`."""
        if name not in self.names():
            known = ", ".join(self.names()) or "none"
            raise SecretMissing(f"No secret {name!r} is kept here. Kept: {known}")
        (self._folder / name).unlink()

    def value(self, reference: str) -> str:
        """Return the value of a reference; raises `SecretMissing`."""
        kind, _, place = reference.partition(":")
        if kind == "env":
            found, mend = self._environment.get(place, ""), "Set it and start the service again"
        elif kind == "kept":
            found = _text(self._folder / place)
            mend = f"Run `hearth secrets set {place}`"
        else:
            found, mend = _text(Path(place)), "Put it there, readable for the service"
        if not found or "\0" in found:
            raise SecretMissing(f"nothing is at {reference}. {mend}")
        return found


def _text(file: Path) -> str:
    """The text of a file without its last line end; empty where there is none to be read."""
    try:
        return file.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError):
        return ""


def missing(workflow: Workflow, named: Mapping[str, str], secrets: Secrets) -> list[Diagnostic]:
    """Return errors for secrets that nodes of a document use and that are missing; `named` are the
    locations of the secrets of its project.
    """
    faults = []
    for path, node in nodes_of(workflow.document):
        asked = node.given.get("secrets")
        for variable, name in asked.items() if isinstance(asked, dict) else ():
            if name not in named:
                continue
            try:
                secrets.value(named[name])
            except SecretMissing as error:
                fact, _, mend = str(error).partition(". ")
                at = (*path, "with", "secrets", variable)
                told = f"the secret {name!r} is missing: {fact}"
                faults.append(workflow.source.diagnostic(at, told, mend))
    return faults
