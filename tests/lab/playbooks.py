"""Ansible on the hosts of a lab, as `bootstrap.sh -i` runs it there."""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from hearth.cluster import binaries
from hearth.cluster.secrets import SecretFile
from hearth.lab.lab import Lab
from hearth.release.environment import LOCKS, build

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SERVER_TAGS = "preflight_checks,host,docker,consul"
MACHINE_TAGS = f"{SERVER_TAGS},hearth_release"
"""The tags of all that needs no Nomad."""
RECAP = re.compile(
    r"^(\S+)\s+: ok=\d+ +changed=(\d+) +unreachable=(\d+) +failed=(\d+)", re.MULTILINE
)


SECONDS = 1200
"""Longer than a playbook takes on a busy machine."""
PASSWORD = "a password of the tests"
Variables = Mapping[str, Mapping[str, object]]


@cache
def vault() -> Path:
    """The secrets of every lab of this run: recorded layers take them from one lab to the next."""
    folder = Path(tempfile.mkdtemp(prefix="hearth-secrets-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "cluster.vault.yaml"


def secrets() -> dict[str, Any]:
    """What is in it, by name."""
    return SecretFile(vault(), PASSWORD).read()


@dataclass(frozen=True)
class Ran:
    """What one run of a playbook said."""

    output: str
    returncode: int
    errors: str = ""

    @property
    def changed(self) -> dict[str, int]:
        """Machine -> tasks that changed it."""
        return {name: int(count) for name, count, *_ in RECAP.findall(self.output)}

    @property
    def changes(self) -> str:
        """The tasks that changed something, for the message of a failing test."""
        tasks = re.split(r"(?=^(?:TASK|RUNNING HANDLER) \[)", self.output, flags=re.MULTILINE)
        return "".join(task for task in tasks if "changed: [" in task)


def inventory_of(
    lab: Lab, nodes: int, *, of_hosts: Variables | None = None, **variables: object
) -> Path:
    """The lab's own inventory with so many of its machines, and variables of the cluster.

    `of_hosts`: name of a machine -> variables of its own.
    """
    yaml = YAML()
    document = yaml.load((ROOT / "inventory" / "lab.yaml").read_text(encoding="utf-8"))
    hosts = document["cluster"]["hosts"]
    for name in list(hosts)[nodes:]:
        del hosts[name]
    for name, host in hosts.items():
        host["ansible_host"] = str(lab.node(name).address)
        host.update((of_hosts or {}).get(name, {}))
    # As values, they are not looked up for each task on each machine.
    found = {
        "ansible_ssh_private_key_file": str(lab.key),
        "ansible_control_path_dir": str(lab.folder),
    }
    secrets_file = {"cluster_secrets_file": str(vault())}
    document["cluster"]["vars"].update(found | secrets_file | variables)
    file = lab.folder / f"inventory-{nodes}.yaml"
    draft = file.with_suffix(f".{threading.get_ident()}")
    with draft.open("w", encoding="utf-8") as stream:
        yaml.dump(document, stream)
    draft.rename(file)  # several may read it at a time
    return file


def play(
    lab: Lab, *options: str, nodes: int = 3, playbook: str = "playbook.yaml", check: bool = True,
    variables: dict[str, object] | None = None, of_hosts: Variables | None = None,
    root: Path = ROOT,
) -> Ran:  # fmt: skip
    """Run a playbook on the first machines of a lab; fails with the end of what it said.

    `root`: the checkout that it is of.
    """
    inventory = inventory_of(lab, nodes, of_hosts=of_hosts, **(variables or {}))
    words = [str(BIN / "ansible-playbook"), "-i", str(inventory), playbook, *options]
    return told(lab, words, check=check, root=root)


def changed_by_each(lab: Lab, tags: Sequence[str]) -> dict[str, str]:
    """What goes wrong or changes where each tag is run alone on the first machine: tag -> why."""

    def run(tag: str) -> str:
        ran = play(lab, "--limit", "node1", "--tags", tag, check=False)
        if ran.returncode or f"TASK [{tag.partition('_configure')[0]} : " not in ran.output:
            return ran.output[-4000:] + ran.errors[-2000:]
        return "" if ran.changed == {"node1": 0} else f"{ran.changed} {ran.changes}"

    with ThreadPoolExecutor(2) as pool:
        return {tag: why for tag, why in zip(tags, pool.map(run, tags), strict=True) if why}


def failed(output: str) -> str:
    """What a playbook printed of the tasks that failed, which may lie far before its end."""
    tasks = [task for task in output.split("\nTASK ") if re.search("^(fatal|failed): ", task, re.M)]
    return "".join(f"TASK {task[:3000]}\n" for task in tasks)


def told(
    lab: Lab, words: Sequence[str], *, check: bool = True, root: Path = ROOT, **more: str
) -> Ran:
    """What a command inside a lab says that works on its hosts.

    It finds the secrets by its environment, to which `more` is added. Fails, also without `check`,
    if it takes longer than `SECONDS`.
    """
    password = vault().with_name("password")
    if not password.exists():
        password.write_text(f"{PASSWORD}\n", encoding="utf-8")
        password.chmod(0o600)
    settings = {
        "ANSIBLE_VAULT_PASSWORD_FILE": str(password),
        "HEARTH_VAULT_PASSWORD_FILE": str(password),
        # As wide as a terminal that shows whole addresses.
        "COLUMNS": "250",
        "ANSIBLE_CONFIG": str(root / "ansible.cfg"),
        # The tests read every task, not only those that change something.
        "ANSIBLE_STDOUT_CALLBACK": "default",
        # Its own modules and action plugins, whatever is installed here.
        "PYTHONPATH": str(root),
        **more,
    }
    for name in ("consul", "nomad"):
        found = binaries.find("consul" if name == "consul" else "nomad")
        settings[f"HEARTH_{name.upper()}_BINARY"] = str(found or "")
    # An ssh that a test has killed leaves our standard input non-blocking, which Ansible refuses.
    os.set_blocking(0, True)
    try:
        ended = lab.run(words, cwd=root, settings=settings, check=False, seconds=SECONDS)
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        raise AssertionError(f"still running after {SECONDS} s: {output[-8000:]}") from error
    if check and ended.returncode != 0:
        raise AssertionError(failed(ended.stdout) + ended.stdout[-8000:] + ended.stderr[-2000:])
    return Ran(ended.stdout, ended.returncode, ended.stderr)


@cache
def fetch() -> None:
    """Bring to the controller what nothing inside a lab can reach, as `bootstrap.sh -i` does."""
    ended = subprocess.run(
        [str(BIN / "ansible-playbook"), "-i", "inventory/lab.yaml", "fetch.yaml"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if ended.returncode != 0:
        raise AssertionError(failed(ended.stdout) + ended.stdout[-8000:] + ended.stderr[-2000:])


def release(*pythons: str) -> None:
    """Bring to the controller what Hearth's own code consists of, for which it needs a network.

    Debian 12 and 13 have Python 3.11 and 3.13; `pythons` are those of other systems. The agent,
    which has the third set, runs in an image.
    """
    folder = ROOT / ".cache" / "releases"
    _build(folder, "3.11", *LOCKS)
    for python in ("3.13", *pythons):
        _build(folder, python, "host", "speech")


@cache
def _build(folder: Path, python: str, *sets: str) -> None:
    build(ROOT, folder, arch="x86_64", python=python, sets=sets)
