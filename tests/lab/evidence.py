"""What the hosts of a lab say after a failure: units that failed, their journals, allocations."""

from collections.abc import Iterator

from hearth.cluster.errors import ClusterError
from hearth.cluster.jobs.failure import cause
from hearth.cluster.nomad import Nomad
from hearth.lab.errors import LabError
from hearth.lab.lab import Lab
from hearth.lab.node import Node
from tests.lab.playbooks import vault
from tests.lab.whole.asking import agents

SECONDS = 20.0
OURS = ("consul", "nomad", "docker", "hearth-*")
JOURNALS = f"""
systemctl --failed --no-legend --plain
for unit in $(systemctl --failed --no-legend --plain | cut -d ' ' -f 1); do
    journalctl --no-pager --lines 40 --unit "$unit"
done
journalctl --no-pager --quiet --lines 60 {" ".join(f"--unit '{unit}'" for unit in OURS)}
"""
ALLOCATIONS = """
for log in $(ls -t /var/lib/nomad/alloc/*/alloc/logs/*.std* 2>/dev/null | head -20); do
    echo "== $log"; tail -n 30 "$log"
done
"""


def evidence_of(lab: Lab) -> Iterator[tuple[str, str]]:
    """Title and text for each host of the lab, if it is up."""
    if not lab.is_up():
        return
    for node in lab.nodes():
        if not node.answers():
            yield f"{node.name} console", node.console_tail(40)
            continue
        yield f"{node.name} journal", _said(node, JOURNALS)
        if logs := _said(node, ALLOCATIONS):
            yield f"{node.name} allocations", logs
    # Last, because the end of a log is what is read first.
    if vault().exists():
        yield "allocations that do not run", _not_running(lab)


def _not_running(lab: Lab) -> str:
    """Return job, state and cause of each allocation that should run and does not, as the first
    server that answers reports them."""
    failures = []
    for node in lab.nodes():
        try:
            with agents(lab, node) as (_, nomad):
                return "\n".join(_lines(nomad))
        except (ClusterError, LabError, OSError) as error:
            failures.append(f"{node.name}: {error}")
    return "\n".join(failures)


def _lines(nomad: Nomad) -> Iterator[str]:
    for job in nomad.jobs():
        for one in nomad.allocations(job.id):
            if one.desired_status == "run" and not one.runs:
                yield f"{job.id} {one.id[:8]} is {one.client_status}: {cause(one)}"


def _said(node: Node, script: str) -> str:
    try:
        return node.ssh(script, seconds=SECONDS)
    except LabError as error:
        return str(error)
