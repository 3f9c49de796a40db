#!/usr/bin/python
"""The documentation; the action plugin of the same name runs, inside Ansible itself."""

DOCUMENTATION = """
module: cluster_secrets
short_description: Make the secrets of the cluster before they are used
description:
  - Makes the named secrets that are missing and writes them into a file that Ansible's vault
    encrypts, before any of them is told. What is in the file already, by us or by hand, stays.
  - Always runs on the controller, inside Ansible itself. The vault password is the one that Ansible
    was started with; it goes nowhere.
options:
  path:
    description: The encrypted file of variables.
    type: path
    required: true
  secrets:
    description:
      - The kind of secret by the name of the variable. C(gossip_key) fits Consul's and Nomad's
        C(encrypt); C(token) is what their access control takes; C(api_key) is a key for people or
        services; C(password) is for a login; C(authority) is a mapping of C(certificate) and
        C(key), both PEM.
    type: dict
    required: true
  vault_password:
    description: The vault password, when it is another one than Ansible was started with.
    type: str
attributes:
  check_mode:
    support: full
    description: Tells what would be made; RV(secrets) then holds values that nobody will keep.
  diff_mode:
    support: full
    description: Shows the names of the new secrets, never their values.
author: [Hearth]
"""

EXAMPLES = """
- name: Generate missing secrets
  cluster_secrets:
    path: "{{ inventory_dir }}/../group_vars/all/vault.yaml"
    secrets:
      consul_gossip_key: gossip_key
      consul_management_token: token
      cluster_authority: authority
  run_once: true
  register: cluster_secrets_made
"""

RETURN = """
made:
  description: The names of the secrets that were missing.
  returned: always
  type: list
  elements: str
secrets:
  description: Every secret that was named. The task's result is never shown.
  returned: always
  type: dict
"""
