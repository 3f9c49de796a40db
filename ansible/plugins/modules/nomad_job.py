#!/usr/bin/python
"""Thin on purpose: arguments in, `hearth.cluster.jobs` does the work, allocations out."""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from hearth.cluster.endpoint import ARGUMENTS, endpoint_of
from hearth.cluster.errors import ClusterError, NotFound, Unreachable
from hearth.cluster.jobs.deploy import Jobs, Source
from hearth.cluster.jobs.state import state_of
from hearth.cluster.nomad import Allocation, Nomad

DOCUMENTATION = """
module: nomad_job
short_description: Keep a job of Nomad as its file says
description:
  - Parses a job's HCL2 with values for its variables, plans it, registers exactly what was planned,
    and waits until the job is healthy. Whether anything changed comes from Nomad's plan. A second
    run registers nothing. A job that is as its file says, but was not deployed, is tried again.
  - When the job does not become healthy, the message has the machine, the task, its last events and
    the end of its log.
extends_documentation_fragment: [endpoint]
options:
  src:
    description: The job's file. Required when O(state=present).
    type: path
  variables:
    description: Values for the C(variable) blocks of the file. A name without block is refused.
    type: dict
    default: {}
  job:
    description: Id of the job. Required when O(state=absent).
    type: str
  state:
    description:
      - C(absent) stops the job; O(purge) also forgets it.
    type: str
    choices: [present, absent]
    default: present
  purge:
    description: With O(state=absent), forget the job and its history as well.
    type: bool
    default: false
  wait:
    description: Wait until the job runs and is healthy.
    type: bool
    default: true
  wait_timeout:
    description: Seconds to wait; a model may need minutes to load.
    type: float
    default: 600.0
author: [Hearth]
"""

EXAMPLES = """
- name: Run the gateway
  nomad_job:
    url: "{{ nomad_url }}"
    ca_file: "{{ nomad_ca_file }}"
    token: "{{ nomad_management_token }}"
    src: nomad_jobs/moe-gateway.nomad.hcl
    variables:
      port: 8080
      datacenters: [dc1]
  delegate_to: localhost
  run_once: true
"""

RETURN = """
job:
  description: Id of the job.
  returned: always
  type: str
revived:
  description: Whether an unchanged job whose deployment had failed was tried again.
  returned: when O(state=present)
  type: bool
allocations:
  description: What runs where, a list of C(id), C(group) and C(node).
  returned: when waited for
  type: list
  elements: dict
unplaced:
  description: Group -> why no machine would take it at the time of the plan.
  returned: when O(state=present)
  type: dict
"""


def present(module: AnsibleModule, jobs: Jobs) -> dict[str, Any]:
    """Plan, register, wait; what the module answers."""
    path = Path(module.params["src"])
    source = Source(str(path), path.read_text(encoding="utf-8"), module.params["variables"])
    plan = jobs.plan(source)
    if plan.warnings:
        module.warn(f"{path}: {plan.warnings}")
    answer: dict[str, Any] = {
        "changed": plan.changed,
        "revived": False,
        "job": plan.id,
        "unplaced": plan.unplaced,
        "diff": {"before": plan.before, "after": plan.after, "after_header": str(path)},
    }
    if module.check_mode:
        return answer
    if plan.changed:
        jobs.register(plan)
    elif plan.waits and state_of(jobs.nomad, plan.id).failed:
        jobs.revive(plan.id)
        answer["changed"] = answer["revived"] = True
    if module.params["wait"] and plan.waits:
        answer["allocations"] = _rows(jobs.wait(plan, timeout=module.params["wait_timeout"]))
    return answer


def absent(module: AnsibleModule, nomad: Nomad) -> dict[str, Any]:
    """Stop what runs; what the module answers."""
    job, purge = module.params["job"], module.params["purge"]
    try:
        stopped = bool(nomad.job(job)["Stop"])
    except NotFound:
        return {"changed": False, "job": job}
    changed = purge or not stopped
    if changed and not module.check_mode:
        nomad.stop(job, purge=purge)
    after = "" if purge else f'job "{job}", stopped\n'
    return {
        "changed": changed,
        "job": job,
        "diff": {"before": f'job "{job}"\n' if changed else after, "after": after},
    }


def unseen(module: AnsibleModule, error: Unreachable) -> dict[str, Any]:
    """In check mode before there is a Nomad: the whole file, as new."""
    module.warn(f"{error} The whole job is shown as new.")
    path = Path(module.params["src"])
    text = path.read_text(encoding="utf-8")
    return {
        "changed": True,
        "job": path.name.partition(".")[0],
        "unplaced": {},
        "diff": {"before": "", "after": text, "after_header": str(path)},
    }


def _rows(allocations: list[Allocation]) -> list[dict[str, str]]:
    return [{"id": a.id, "group": a.group, "node": a.node} for a in allocations]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **ARGUMENTS,
            "src": {"type": "path"},
            "variables": {"type": "dict", "default": {}},
            "job": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "purge": {"type": "bool", "default": False},
            "wait": {"type": "bool", "default": True},
            "wait_timeout": {"type": "float", "default": 600.0},
        },
        required_if=[("state", "present", ("src",)), ("state", "absent", ("job",))],
        supports_check_mode=True,
    )
    is_present = module.params["state"] == "present"
    try:
        with Nomad(endpoint_of(module.params)) as nomad:
            answer = present(module, Jobs(nomad)) if is_present else absent(module, nomad)
    except Unreachable as error:
        if not (module.check_mode and is_present):
            module.fail_json(msg=str(error))
        answer = unseen(module, error)
    except (ClusterError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
