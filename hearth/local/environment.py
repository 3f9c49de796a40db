"""The environment of local mode: variables that it reads, and those that its services inherit."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from hearth.service.settings import SettingsError

OF_SERVICES = ("MOE_GATEWAY_", "PIPECATAPP_", "LLAMA_EXPERT_", "SPEECH_", "EMBEDDINGS_")
OUR_PREFIXES = ("HEARTH_", *OF_SERVICES)
PEOPLES = ("PIPECATAPP_MODEL_ROLES",)
"""Settings that `hearth up` passes to a service and that users may override."""
LOOPBACK = ("127.0.0.1", "localhost")


def child_environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: the user's without Hearth's variables, and `own`.

    Loopback is added to `NO_PROXY`, because services never reach each other through a proxy.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(OUR_PREFIXES)
    }
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [host for host in environment.get(name, "").split(",") if host]
        environment[name] = ",".join(dict.fromkeys([*hosts, *LOOPBACK]))
    environment["PYTHONUNBUFFERED"] = "1"
    return environment | dict(own)


def settings_of_people(path: Path) -> dict[str, str]:
    """Read settings for services from a file of lines `NAME=VALUE`, empty lines and comments (`#`).

    Returns an empty dictionary if the file does not exist. Raises `SettingsError`.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}.") from error
    settings: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, sign, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not sign or not name.startswith(OF_SERVICES):
            known = ", ".join(f"{prefix}…" for prefix in OF_SERVICES)
            raise SettingsError(
                f"{path}, line {number}: write NAME=VALUE with a name that begins with {known}."
            )
        settings[name] = value
    return settings


def with_settings_of_people(own: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of one service with the settings of users for it.

    Raises `SettingsError` for a variable that `hearth up` sets itself.
    """
    prefixes = tuple(one for one in OF_SERVICES if any(name.startswith(one) for name in own))
    added = {name: value for name, value in settings.items() if name.startswith(prefixes)}
    if fixed := sorted(added.keys() & own.keys() - {*PEOPLES}):
        raise SettingsError(f"settings.env: {fixed[0]} is set by `hearth up` itself.")
    return {**own, **added}


def ansible_environment(config: Path) -> dict[str, str]:
    """Return the environment of an Ansible command whose output is parsed: JSON, no colours."""
    output = {
        "ANSIBLE_CONFIG": str(config),
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        "ANSIBLE_NOCOLOR": "1",
    }
    return dict(os.environ) | output


def command_name() -> str:
    """Return how to call this command in a shell: `hearth` if it is on PATH, otherwise its path."""
    own = Path(sys.executable).parent / "hearth"
    on_path = shutil.which("hearth")
    if not own.exists() or (on_path and os.path.realpath(on_path) == os.path.realpath(own)):
        return "hearth"
    folder = Path.cwd()
    return shlex.quote(str(own.relative_to(folder) if own.is_relative_to(folder) else own))
