#!/usr/bin/python
"""The documentation; the action plugin of the same name runs, inside Ansible itself."""

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
    description: Id of the job. Required when O(state=absent) or O(state=healthy).
    type: str
  state:
    description:
      - C(healthy) writes nothing and waits for a job that is registered. C(absent) stops the job;
        O(purge) also forgets it.
    type: str
    choices: [present, healthy, absent]
    default: present
  purge:
    description: With O(state=absent), forget the job and its history as well.
    type: bool
    default: false
  wait:
    description:
      - With O(state=present), wait until the job runs and is healthy. C(update) does so only for a
        job that was there before; of new ones nobody asks anything yet, so several may start at the
        same time, each waited for by O(state=healthy) when something needs it.
    type: str
    choices: [always, update]
    default: always
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
