#!/usr/bin/python
"""The documentation; the action plugin of the same name runs, inside Ansible itself."""

DOCUMENTATION = """
module: cluster_certificate
short_description: Keep a machine's certificate of the cluster's own authority
description:
  - Makes a private key and a certificate for server and client use, unless the pair in
    O(current) is good. They are made anew when names or authority changed, when key and
    certificate do not belong together, and O(renew_before_days) before the end.
  - Runs on the controller; the files are copied to the machine from there.
options:
  authority:
    description: The authority, a mapping of C(certificate) and C(key), both PEM.
    type: dict
    required: true
  name:
    description: The common name, which people see.
    type: str
    required: true
  names:
    description: DNS names and IP addresses that the certificate is good for.
    type: list
    elements: str
    required: true
  current:
    description: The pair in use, a mapping of C(certificate) and C(key). The task needs C(no_log).
    type: dict
    default: {}
  days:
    description: How long a new certificate is valid.
    type: int
    default: 825
  renew_before_days:
    description: How long before its end a certificate is made anew.
    type: int
    default: 30
attributes:
  check_mode:
    support: full
    description: The new pair is returned, but nothing was written anywhere in any mode.
  diff_mode:
    support: full
    description: Shows why a certificate is made anew.
author: [Hearth]
"""

EXAMPLES = """
- name: Issue the certificate of the machine
  cluster_certificate:
    authority: "{{ cluster_authority }}"
    name: "{{ inventory_hostname }}"
    names: [localhost, 127.0.0.1, "{{ ansible_host }}", server.dc1.consul]
    current:
      certificate: "{{ consul_slurped_certificate | default('') }}"
      key: "{{ consul_slurped_key | default('') }}"
  delegate_to: localhost
  no_log: true
  register: consul_certificate
"""

RETURN = """
certificate:
  description: The certificate to use, PEM.
  returned: always
  type: str
key:
  description: Its private key, PEM. The task needs C(no_log).
  returned: always
  type: str
reason:
  description: Why it was made anew; empty when it was not.
  returned: always
  type: str
not_after:
  description: When it ends, ISO 8601.
  returned: always
  type: str
"""
