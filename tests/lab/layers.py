"""What golden layers hold: hosts in a state that several tests begin with."""

from hearth.cluster import binaries
from hearth.lab.lab import Lab
from tests.lab.playbooks import converge, secrets
from tests.lab.whole.asking import agents

KEPT = "tests/kept"
IMAGE = """
cd / && tar --create --one-file-system bin etc lib lib64 sbin usr/bin usr/lib usr/lib64 usr/sbin |
    docker import - lab/base
"""


def three(lab: Lab) -> None:
    """Three servers; one machine was there first, and what it stored under `KEPT` is theirs now.

    Where there is a Nomad, that machine has it, too, and nothing else until the others come.
    """
    has_nomad = binaries.find("nomad") is not None
    (first,) = lab.up(1)
    converge(lab, nodes=1, tags=f"host,consul{',nomad' if has_nomad else ''}")
    first.ssh(kv(f"put {KEPT} before"))
    if has_nomad:
        with agents(lab, first) as (_, nomad):
            nomad.put_variable(KEPT, {"said": "before"})
    lab.up(3)
    converge(lab)


def images(lab: Lab) -> None:
    """One of them, whose Docker has an image of the host's own programs."""
    lab.node("node1").ssh(IMAGE, seconds=300)


def kv(words: str) -> str:
    """Consul's store on the command line of a host."""
    return f"CONSUL_HTTP_TOKEN={secrets()['consul_management_token']} consul kv {words}"
