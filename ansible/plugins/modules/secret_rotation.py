#!/usr/bin/python
"""The documentation; the action plugin of the same name runs, inside Ansible itself."""

DOCUMENTATION = """
module: secret_rotation
short_description: Replace secrets of a running cluster
description:
  - C(begun) makes new values for the named secrets and writes them into the file of secrets beside
    those of before, lets the new management tokens in, and has Consul and Nomad exchange their keys
    of gossip while they run. Called again, it makes no other values.
  - C(ended) ends the tokens of before and takes them out of the file. In between the playbook
    brings the new values to machines and jobs.
  - Always runs on the controller, inside Ansible itself.
options:
  path:
    description: The encrypted file of variables.
    type: path
    required: true
  state:
    description: Which half.
    type: str
    required: true
    choices: [begun, ended]
  secrets:
    description: The kind of each secret to replace by the name of the variable, for C(begun).
    type: dict
    default: {}
  consul_url:
    description: Where Consul answers; without it and O(nomad_url) no agent has access control.
    type: str
  nomad_url:
    description: Where Nomad answers.
    type: str
  ca_file:
    description: The only authority whose certificates are trusted.
    type: path
  vault_password:
    description: The vault password, when it is another one than Ansible was started with.
    type: str
attributes:
  check_mode:
    support: full
author: [Hearth]
"""

EXAMPLES = """
- name: Generate new gossip keys
  secret_rotation:
    path: "{{ cluster_secrets_file }}"
    state: begun
    secrets:
      consul_gossip_key: gossip_key
      nomad_gossip_key: gossip_key
    consul_url: "{{ consul_url }}"
    nomad_url: "{{ nomad_url }}"
    ca_file: "{{ cluster_ca_file }}"
  run_once: true
"""

RETURN = """
rotated:
  description: The names of the secrets that were, or are being, replaced.
  returned: always
  type: list
  elements: str
"""
