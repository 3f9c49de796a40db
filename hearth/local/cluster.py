"""Access to a cluster from this machine: the address of its web page, key and certificate."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import httpx2

from hearth.local.environment import ansible_environment
from hearth.local.errors import ClusterUnknown, LocalError, SecretsClosed
from hearth.service.names import PIPECATAPP
from hearth.service.settings import read_key, trusting
from hearth.settings import Settings

ASK_SECONDS: Final = 5.0
ROOT: Final = Path(__file__).parents[2]
ANSWER: Final = re.compile(r"^(\S+) \| SUCCESS => (\{.*?^\})", re.MULTILINE | re.DOTALL)
"""The output of `ansible` for one machine."""

VARIABLES: Final = """{{ {'address': ansible_host | default(inventory_hostname),
'port': pipecatapp_port | default(8000),
'ca': cluster_ca_file, 'security': cluster_security, 'key': (lookup('ansible.builtin.unvault',
cluster_secrets_file) | from_yaml).api_key, 'secrets': cluster_secrets_file} | to_json }}"""
"""Template of the variables to read. Ansible itself decrypts the vault, so the key is never in a
file or on a command line."""


@dataclass(frozen=True)
class Cluster:
    """The web page of a cluster, and its key."""

    url: str
    key: str
    ca_file: Path | None = None
    secrets_file: Path | None = None
    """The encrypted file with the key, if the cluster was selected by an inventory."""

    @classmethod
    def of(cls, settings: Settings, inventory: Path | None = None) -> Self | None:
        """Return the cluster of an inventory or of the settings; None if there is neither.

        Raises `ClusterUnknown`, `SecretsClosed` and `SettingsError`.
        """
        if inventory is not None:
            return cls._in(inventory, settings)
        if settings.cluster_url is None:
            return None
        if settings.cluster_key_file is None:
            raise ClusterUnknown("HEARTH_CLUSTER_URL is set but HEARTH_CLUSTER_KEY_FILE is not")
        url = str(settings.cluster_url).rstrip("/")
        return cls(url, read_key(settings.cluster_key_file), settings.cluster_ca_file)

    @classmethod
    def _in(cls, inventory: Path, settings: Settings) -> Self:
        machines = _ask_ansible(inventory, settings)
        first = next(iter(machines.values()))
        full = first["security"] == "full"
        ca = Path(first["ca"]) if full else None
        scheme = "https" if full else "http"
        urls = [f"{scheme}://{each['address']}:{each['port']}" for each in machines.values()]
        for url in urls:
            if _answers(url, ca):
                return cls(url, first["key"], ca, Path(first["secrets"]))
        raise ClusterUnknown(f"no machine answers at {', '.join(urls)}")

    def client(self) -> httpx2.Client:
        """Return an HTTP client of the web page that sends the key."""
        return httpx2.Client(
            base_url=self.url,
            headers={"authorization": f"Bearer {self.key}"},
            timeout=httpx2.Timeout(30.0, connect=ASK_SECONDS),
            verify=trusting(self.ca_file),
            trust_env=False,
        )


def _unreadable(inventory: Path, printed: str) -> LocalError:
    """Return the error for an inventory for which Ansible failed, with its output."""
    if "no vault secrets found" in printed:
        return SecretsClosed(inventory, "no password was given")
    if "Decryption failed" in printed:
        return SecretsClosed(inventory, "the given password is wrong")
    reasons = [line for line in printed.splitlines() if line.startswith("[ERROR]: ")]
    reason = reasons[0].removeprefix("[ERROR]: ") if reasons else "it has no group `cluster`"
    return ClusterUnknown(f"{inventory} cannot be read: {reason[:300]}")


def _answers(url: str, ca: Path | None) -> bool:
    """Return whether the agent answers; machines without it refuse the connection."""
    try:
        answer = httpx2.get(
            f"{url}/health", verify=trusting(ca), timeout=ASK_SECONDS, trust_env=False
        )
        return bool(answer.json()["service"] == PIPECATAPP)
    except (httpx2.TransportError, ValueError, KeyError, TypeError):
        return False


def _ask_ansible(inventory: Path, settings: Settings) -> Mapping[str, Mapping[str, str]]:
    """Return machine -> its variables, as evaluated by Ansible, which asks for the vault's
    password."""
    ansible = Path(sys.executable).parent / "ansible"
    if not ansible.exists():
        raise ClusterUnknown("Ansible, which reads inventories, is not installed here")
    command = [
        str(ansible), "cluster", "--inventory", str(inventory),
        "--playbook-dir", str(ROOT), "--module-name", "ansible.builtin.debug",
        "--args", f"msg={json.dumps(VARIABLES)}",
    ]  # fmt: skip
    if settings.vault_password_file is not None:
        command += ["--vault-password-file", str(settings.vault_password_file)]
    elif os.isatty(0):
        command += ["--ask-vault-password"]
    environment = ansible_environment(ROOT / "ansible.cfg")
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    messages = {name: json.loads(text)["msg"] for name, text in ANSWER.findall(ended.stdout)}
    if not messages:
        raise _unreadable(inventory, ended.stderr + ended.stdout)
    return {
        name: json.loads(message) if isinstance(message, str) else message
        for name, message in messages.items()
    }
