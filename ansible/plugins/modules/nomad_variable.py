#!/usr/bin/python
"""The documentation; the action plugin of the same name runs, inside Ansible itself."""

DOCUMENTATION = """
module: nomad_variable
short_description: Keep a variable of Nomad, where jobs find their secrets
description:
  - Writes the items of a variable if they differ, and only if nobody else wrote in between. A job
    reads C(nomad/jobs/<job>) with its own workload identity and nothing else.
extends_documentation_fragment: [endpoint]
options:
  path:
    description: Path of the variable, for example C(nomad/jobs/moe-gateway).
    type: str
    required: true
  items:
    description: The items, strings by name. Items that are not named are removed.
    type: dict
    default: {}
  state:
    description: Whether the variable is there.
    type: str
    choices: [present, absent]
    default: present
author: [Hearth]
"""

EXAMPLES = """
- name: Store the keys of the gateway
  nomad_variable:
    url: "{{ nomad_url }}"
    ca_file: "{{ nomad_ca_file }}"
    token: "{{ nomad_management_token }}"
    path: nomad/jobs/moe-gateway
    items:
      api_key: "{{ api_key }}"
      expert_key: "{{ expert_key }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = """
changed_items:
  description: The names of the items that were added, changed or removed; never their values.
  returned: always
  type: list
  elements: str
"""
