"""Opens the ports that `ports.yaml` of the state directory names."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final, cast

from pydantic import ValidationError

from pipecatapp.records.secrets import SecretMissing, Secrets
from pipecatapp.tools.ports import files, forgejo, git_notes, webhook
from pipecatapp.tools.ports.port import (
    Ci,
    Messages,
    PortSettings,
    PortsSettings,
    Scm,
    Tracker,
)
from pipecatapp.workflow import InvalidDocument, ToolFailed, complaints
from pipecatapp.workflow.syntax import read_yaml

IMPLEMENTATIONS: Final[Mapping[str, ModuleType]] = {
    "files": files,
    "git": git_notes,
    "forgejo": forgejo,
    "webhook": webhook,
}


class Ports:
    """The ports of one instance; the file is read at each use, so a change needs no restart."""

    def __init__(self, path: Path, secrets: Secrets) -> None:
        self._path, self._secrets = path, secrets

    def tracker(self) -> Tracker:
        """The bug tracker; raises `ToolFailed` where none is set up."""
        return cast("Tracker", self._open("tracker", self._settings().tracker))

    def ci(self) -> Ci:
        """The CI; raises `ToolFailed` where none is set up."""
        return cast("Ci", self._open("ci", self._settings().ci))

    def scm(self) -> Scm:
        """The source control; raises `ToolFailed` where none is set up."""
        return cast("Scm", self._open("scm", self._settings().scm))

    def messages(self) -> Messages:
        """The channel for messages; raises `ToolFailed` where none is set up."""
        return cast("Messages", self._open("messages", self._settings().messages))

    def _settings(self) -> PortsSettings:
        if not self._path.exists():
            return PortsSettings()
        try:
            value, _ = read_yaml(self._path.read_text(encoding="utf-8"), file=str(self._path))
            return PortsSettings.model_validate(value or {})
        except InvalidDocument as error:
            raise ToolFailed(str(error)) from error
        except ValidationError as error:
            raise ToolFailed(f"{self._path} is not valid: {complaints(error)}") from error

    def _open(self, name: str, settings: PortSettings | None) -> object:
        if settings is None:
            raise ToolFailed(f"No {name} is set up: name one in {self._path}.")
        module = IMPLEMENTATIONS.get(settings.use)
        if module is None or not hasattr(module, name):
            known = [use for use, one in IMPLEMENTATIONS.items() if hasattr(one, name)]
            raise ToolFailed(f"{settings.use!r} is not a valid {name}: use {', '.join(known)}.")
        try:
            token = self._secrets.value(settings.token) if settings.token else ""
        except SecretMissing as error:
            raise ToolFailed(str(error)) from error
        return getattr(module, name)(settings, token)
