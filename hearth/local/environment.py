"""What the embedded mode takes from its environment, and what it hands on to its children."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

OUR_PREFIXES = ("HEARTH_", "MOE_GATEWAY_", "PIPECATAPP_", "LLAMA_EXPERT_", "SPEECH_")
LOOPBACK = ("127.0.0.1", "localhost")


def child_environment(own: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child: the user's, without leftovers of ours, and the child's own.

    Loopback is added to `NO_PROXY`: our services talk to each other and never through a proxy.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(OUR_PREFIXES)
    }
    for name in ("NO_PROXY", "no_proxy"):
        given = [host for host in environment.get(name, "").split(",") if host]
        environment[name] = ",".join(dict.fromkeys([*given, *LOOPBACK]))
    environment["PYTHONUNBUFFERED"] = "1"
    return environment | dict(own)


def ansible_environment(config: Path) -> dict[str, str]:
    """The environment of an Ansible command whose answer is read by us: JSON, and no colours."""
    answer = {
        "ANSIBLE_CONFIG": str(config),
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        "ANSIBLE_NOCOLOR": "1",
    }
    return dict(os.environ) | answer


def command_name() -> str:
    """How this command is called in a shell: `hearth` where that is on PATH, else its path."""
    own = Path(sys.executable).parent / "hearth"
    found = shutil.which("hearth")
    if not own.exists() or (found is not None and os.path.realpath(found) == os.path.realpath(own)):
        return "hearth"
    here = Path.cwd()
    return shlex.quote(str(own.relative_to(here) if own.is_relative_to(here) else own))
