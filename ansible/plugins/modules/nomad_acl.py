#!/usr/bin/python
"""The documentation; the action plugin of the same name runs, inside Ansible itself."""

DOCUMENTATION = """
module: nomad_acl
short_description: Keep the access control of Nomad as declared
description:
  - Sets up access control with a secret of ours (O(bootstrap)), then makes policies and tokens
    what they are declared to be. What nobody declares is left alone. A second run writes nothing.
  - When access control was set up before and O(token) does not work, it stops with the recipe.
extends_documentation_fragment: [endpoint]
options:
  bootstrap:
    description: Make O(token) a management token first, if it is not one.
    type: bool
    default: false
  policies:
    description: Policies; O(policies[].rules) is HCL.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name., type: str, required: true}
      description: {description: What for., type: str, default: ""}
      rules: {description: The rules., type: str, required: true}
      job: {description: Id of the job whose workload identity gets this policy., type: str}
  tokens:
    description: Tokens, found by name. Nomad chooses their secrets, which RV(tokens) tells.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name., type: str, required: true}
      type: {description: What it may do., type: str, default: client,
             choices: [client, management]}
      policies: {description: Names of policies., type: list, elements: str, default: []}
author: [Hearth]
"""

EXAMPLES = """
- name: Apply ACL policies in Nomad
  nomad_acl:
    url: "https://{{ nomad_server_address }}:4646"
    ca_file: "{{ nomad_ca_file }}"
    token: "{{ nomad_management_token }}"
    bootstrap: true
    policies:
      - name: read-status
        description: The web page shows machines and jobs
        rules: |
          namespace "default" { policy = "read" }
          node { policy = "read" }
        job: pipecatapp
  delegate_to: localhost
  run_once: true
"""

RETURN = """
bootstrapped:
  description: Whether access control was set up, or in check mode would be.
  returned: always
  type: bool
changes:
  description: What was written, as C(kind name).
  returned: always
  type: list
  elements: str
tokens:
  description: Name of each declared token -> C(accessor) and C(secret). Set C(no_log) on the task.
  returned: when tokens were declared
  type: dict
"""
