#!/usr/bin/python
"""Thin on purpose: arguments in, `hearth.cluster.drift` does the work, findings out."""

import hashlib
import os
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from hearth.cluster.consul import Consul
from hearth.cluster.drift import journal
from hearth.cluster.drift.finding import Finding, chosen
from hearth.cluster.drift.machines import Limits, Machine, Report
from hearth.cluster.drift.probe import Declared, probe
from hearth.cluster.drift.repair import repair
from hearth.cluster.endpoint import ARGUMENTS, endpoint_of
from hearth.cluster.errors import ClusterError
from hearth.cluster.nomad import Nomad

DOCUMENTATION = """
module: cluster_drift
short_description: Find how the cluster differs from what was declared, and repair it
description:
  - Looks at units, programs, settings, certificates, tokens, both quorums, clients, jobs,
    allocations, checks, entries in Consul, disks, clocks. Each finding has an id, evidence, a
    risk and a fix.
  - With O(repair=true), the chosen findings that go through the agents are repaired. Those that a
    machine itself must do are told in RV(for_machines), for tasks that follow.
options:
  consul:
    description: Where Consul answers, and what it is asked with.
    type: dict
    required: true
    suboptions: &agent
      url: {description: Where it answers., type: str, required: true}
      token: {description: A token that may read and repair., type: str}
      ca_file: {description: The only authority that is trusted., type: path}
      cert_file: {description: Certificate to show., type: path}
      key_file: {description: Its private key., type: path}
      timeout: {description: Seconds a request may take., type: float, default: 10.0}
      leader_timeout:
        description: Seconds to ask again while the servers have no leader.
        type: float
        default: 10.0
  nomad:
    description: Where Nomad answers, and what it is asked with.
    type: dict
    required: true
    suboptions: *agent
  machines:
    description:
      - Name of each machine -> C(address), C(server), C(sleeps), and the C(report) of
        M(machine_report), which is missing for a machine that did not answer.
    type: dict
    required: true
  jobs:
    description: Id of each job that should run -> its file.
    type: dict
    default: {}
  programs:
    description:
      - Path of a program on the machines -> the file on the controller that it must equal, on
        machines of the controller's own arch.
    type: dict
    default: {}
  roles:
    description: Path of a program, setting or certificate -> the role that keeps it.
    type: dict
    default: {}
  asked:
    description: When the reports were asked for, seconds since 1970.
    type: float
    required: true
  certificate_days:
    description: A certificate or token that ends within this many days is a finding.
    type: float
    default: 30.0
  disk_share:
    description: A file system with a smaller share free is a finding.
    type: float
    default: 0.1
  clock_seconds:
    description: A clock that is off by more is a finding.
    type: float
    default: 5.0
  acl:
    description: Whether access control is on.
    type: bool
    default: true
  repair:
    description: Repair what is chosen.
    type: bool
    default: false
  heal:
    description: Ids of findings that are not safe and are to be repaired, or C(all).
    type: list
    elements: str
    default: []
  kinds:
    description: Repair only findings whose ids begin so, such as C(stale); all, where it is empty.
    type: list
    elements: str
    default: []
  journal:
    description: A file of JSON lines that keeps what was found and done.
    type: path
attributes:
  check_mode:
    support: full
    description: Finds and tells, repairs nothing.
  diff_mode:
    support: none
    description: The findings are the difference.
author: [Hearth]
"""

EXAMPLES = """
- name: Compare the cluster with the declared state
  cluster_drift:
    consul: {url: "{{ consul_url }}", token: "{{ token }}", ca_file: "{{ cluster_ca_file }}"}
    nomad: {url: "{{ nomad_url }}", token: "{{ other }}", ca_file: "{{ cluster_ca_file }}"}
    machines: "{{ heal_machines }}"
    jobs: {moe-gateway: nomad_jobs/moe-gateway.nomad.hcl}
    asked: "{{ heal_asked }}"
  delegate_to: localhost
  run_once: true
  no_log: true
"""

RETURN = """
findings:
  description: Every finding, with C(id), C(evidence), C(risk) and C(fix).
  returned: always
  type: list
  elements: dict
explained:
  description: The findings for people, a line or two each.
  returned: always
  type: list
  elements: str
repaired:
  description: The ids of the findings that were repaired here.
  returned: always
  type: list
  elements: str
failed_repairs:
  description: Id of a finding that could not be repaired -> why.
  returned: always
  type: dict
for_machines:
  description: The chosen findings whose fix is done on a machine.
  returned: always
  type: list
  elements: dict
"""


def declared(given: dict[str, Any]) -> Declared:
    """What there should be, from the module's arguments."""
    machines = [
        Machine(
            name,
            told["address"],
            server=bool(told.get("server")),
            sleeps=bool(told.get("sleeps")),
            report=Report.model_validate(told["report"]) if told.get("report") else None,
        )
        for name, told in given["machines"].items()
    ]
    limits = Limits(
        certificate_days=given["certificate_days"],
        disk_share=given["disk_share"],
        clock_seconds=given["clock_seconds"],
        binaries={
            (os.uname().machine, path): _sha256(Path(file))
            for path, file in given["programs"].items()
            if file
        },
        roles=given["roles"],
    )
    jobs = {job: Path(file) for job, file in given["jobs"].items()}
    return Declared(machines, jobs, limits, asked=given["asked"], acl=given["acl"])


def mend(
    findings: list[Finding], wanted: Declared, consul: Consul, nomad: Nomad
) -> tuple[list[str], dict[str, str], list[Finding]]:
    """The ids that were repaired, those that could not be with the reason, and those left."""
    done, failed, left = [], {}, []
    for finding in findings:
        try:
            if repair(finding, consul, nomad, wanted.jobs):
                done.append(finding.id)
            else:
                left.append(finding)
        except ClusterError as error:
            failed[finding.id] = str(error)
    return done, failed, left


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _explain(finding: Finding) -> str:
    return f"[{finding.risk}] {finding.id}: {finding.evidence}. Fix: {finding.fix.words}."


def run(module: AnsibleModule) -> dict[str, Any]:
    """Probe, and repair what was chosen; what the module answers."""
    given, wanted = module.params, declared(module.params)
    with (
        Consul(endpoint_of(given["consul"])) as consul,
        Nomad(endpoint_of(given["nomad"])) as nomad,
    ):
        findings = probe(wanted, consul, nomad)
        wished = chosen(findings, given["heal"], given["kinds"]) if given["repair"] else []
        if module.check_mode:
            done, failed, left = [], {}, []
        else:
            done, failed, left = mend(wished, wanted, consul, nomad)
    answer = {
        "findings": [finding.as_dict() for finding in findings],
        "repaired": done,
        "failed_repairs": failed,
        "for_machines": [finding.as_dict() for finding in left],
    }
    if given["journal"] and not module.check_mode:
        event = "repair" if given["repair"] and not given["kinds"] else "probe"
        journal.append(Path(given["journal"]), event, **answer)
    return answer | {
        "changed": bool(wished) if module.check_mode else bool(done),
        "explained": [_explain(finding) for finding in findings],
    }


def main() -> None:
    # Each question would wait, and that there is no leader is a finding.
    asked = {**ARGUMENTS, "leader_timeout": {"type": "float", "default": 10.0}}
    agent = {"type": "dict", "required": True, "options": asked}
    module = AnsibleModule(
        argument_spec={
            "consul": agent,
            "nomad": agent,
            "machines": {"type": "dict", "required": True},
            "jobs": {"type": "dict", "default": {}},
            "programs": {"type": "dict", "default": {}},
            "roles": {"type": "dict", "default": {}},
            "asked": {"type": "float", "required": True},
            "certificate_days": {"type": "float", "default": 30.0},
            "disk_share": {"type": "float", "default": 0.1},
            "clock_seconds": {"type": "float", "default": 5.0},
            "acl": {"type": "bool", "default": True},
            "repair": {"type": "bool", "default": False},
            "heal": {"type": "list", "elements": "str", "default": []},
            "kinds": {"type": "list", "elements": "str", "default": []},
            "journal": {"type": "path"},
        },
        supports_check_mode=True,
    )
    try:
        answer = run(module)
    except (ClusterError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
