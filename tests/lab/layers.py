"""What recorded layers hold: hosts in a state that several tests begin with.

    SERVERS    three servers with Docker and Consul, of which the first was there before and the
               third has Debian 13
    MACHINES   the same with Hearth's own code
    IMAGES     its first host with an image
    WHOLE      the three with all that the playbook brings

Each is made again when one of its inputs changes: files of the checkout, programs of this machine,
the layer below it. Hearth's code, which changes most, decides nothing of SERVERS.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from hearth.cluster import binaries
from hearth.cluster.nomad import Nomad
from hearth.lab import systems
from hearth.lab.lab import Lab
from hearth.release.environment import stamp
from tests.cache import Part
from tests.lab.playbooks import ROOT, SERVER_TAGS, fetch, play, release, secrets
from tests.lab.recorded import Notes
from tests.lab.whole.asking import agents, settle

SYSTEMS_OF: Final = {"node3": "debian-13"}
"""Host -> its system, where it is not the one that most hosts have."""
KEPT = "tests/kept"
IMAGE = """
cd / && tar --create --one-file-system bin etc lib lib64 sbin usr/bin usr/lib usr/lib64 usr/sbin |
    docker import - lab/base
"""
ROLES: Final = ("preflight_checks", "host", "docker", "consul", "nomad", "binary", "certificate")
DECIDE_SERVERS: Final = (
    "ansible.cfg", "ansible/plugins/**/*", *(f"ansible/roles/{role}/**/*" for role in ROLES),
    "group_vars/**/*", "host_vars/**/*", "inventory/lab.yaml", "playbook.yaml", "secrets.yaml",
    "hearth/cluster/**/*", "hearth/lab/**/*", "requirements/dev.lock", "tests/lab/layers.py",
    "tests/lab/playbooks.py", "tests/lab/recorded.py", "tests/lab/whole/asking.py",
)  # fmt: skip
"""What Ansible runs, what hosts are booted by, and what makes layers."""
DECIDE_WHOLE: Final = (
    "ansible/roles/**/*", "ansible/playbooks/tasks/**/*", "nomad_jobs/**/*", "*.yaml",
)  # fmt: skip
ENGINES: Final = ("llama.cpp", "whisper.cpp")
FROM_DEBIAN: Final = tuple(
    Path("/usr/bin", name) for name in ("prometheus", "promtool", "prometheus-node-exporter")
)
"""Programs of this machine that `inventory/lab.yaml` brings to the hosts."""


@dataclass(frozen=True)
class Recipe:
    """How a layer is made: `make` brings a lab with so many hosts above the layer `above`, or bare
    ones, into the state to keep, and returns what is to be known of it later."""

    kind: str
    hosts: int
    make: Callable[[Lab], Notes]
    parts: Callable[[], Iterator[Part]]
    above: "Recipe | None" = None


def three(lab: Lab) -> Notes:
    """Make three servers; one machine was there first, and what it stored under `KEPT` is theirs.

    Where there is a Nomad, that machine has it, too, and nothing else until the others come.
    """
    has_nomad = binaries.find("nomad") is not None
    first = lab.node("node1")
    play(lab, "--tags", f"host,consul{',nomad' if has_nomad else ''}", nodes=1)
    first.ssh(kv(f"put {KEPT} before"))
    if has_nomad:
        with agents(lab, first) as (_, nomad):
            nomad.put_variable(KEPT, {"said": "before"})
    lab.up(3, systems_of=SYSTEMS_OF)
    play(lab, "--tags", SERVER_TAGS)
    return {}


def machines(lab: Lab) -> Notes:
    """Bring Hearth's own code to the three."""
    release()
    play(lab, "--tags", "hearth_release")
    return {}


def images(lab: Lab) -> Notes:
    """Give the Docker of the first host an image of the host's own programs."""
    lab.node("node1").ssh(IMAGE, seconds=300)
    return {}


def whole(lab: Lab) -> Notes:
    """Bring everything to the three, and write down in which order the agent and its model began.

    Nomad forgets that: what ran before a power cut is not what runs after it.
    """
    release()
    fetch()
    play(lab)
    settle(lab)
    with agents(lab, lab.nodes()[0]) as (_, nomad):
        return {
            "expert_healthy": _first_healthy(nomad, "llama-expert-general"),
            "agent_registered": _registered(nomad, "pipecatapp"),
        }


def _of_servers() -> Iterator[Part]:
    for name in (systems.DEFAULT, *SYSTEMS_OF.values()):
        system = systems.named(name)
        yield systems.recipe(system, systems.mirrors_used(system))
    yield binaries.find("consul") or ""
    yield binaries.find("nomad") or ""
    yield from _files(*DECIDE_SERVERS)


def _of_machines() -> Iterator[Part]:
    yield stamp(ROOT)
    yield from _files("ansible/roles/hearth_release/**/*", "hearth/release/**/*")


def _of_images() -> Iterator[Part]:
    yield IMAGE


def _of_whole() -> Iterator[Part]:
    yield from _files(*DECIDE_WHOLE)
    brought = [*(ROOT / ".cache" / "engines" / name for name in ENGINES), *FROM_DEBIAN]
    yield from (path if path.exists() else "missing" for path in brought)


SERVERS: Final = Recipe("servers", 1, three, _of_servers)
MACHINES: Final = Recipe("machines", 3, machines, _of_machines, SERVERS)
IMAGES: Final = Recipe("images", 1, images, _of_images, MACHINES)
WHOLE: Final = Recipe("whole", 3, whole, _of_whole, MACHINES)


def kv(words: str) -> str:
    """Consul's store on the command line of a host."""
    return f"CONSUL_HTTP_TOKEN={secrets()['consul_management_token']} consul kv {words}"


def _files(*patterns: str) -> Iterator[Part]:
    """The name and the content of each file that the patterns name, Python's bytecode left out."""
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    for path in sorted(found):
        if "__pycache__" not in path.parts:
            yield str(path.relative_to(ROOT))
            yield path


def _first_healthy(nomad: Nomad, job: str) -> float:
    """When an allocation of a job was found healthy, in seconds since 1970."""
    rows = [nomad.session.call("GET", f"allocation/{one.id}") for one in nomad.allocations(job)]
    told = [row["DeploymentStatus"]["Timestamp"] for row in rows]
    return min(datetime.fromisoformat(f"{text[:19]}+00:00").timestamp() for text in told)


def _registered(nomad: Nomad, job: str) -> float:
    """When a job was registered for the first time."""
    versions = nomad.session.call("GET", f"job/{job}/versions")["Versions"]
    return min(float(version["SubmitTime"]) for version in versions) / 1e9
