#!/usr/bin/python
"""The documentation; the action plugin of the same name runs, inside Ansible itself."""

DOCUMENTATION = """
module: consul_acl
short_description: Keep the access control of Consul as declared
description:
  - Sets up access control with a token of ours (O(bootstrap)), then makes policies, roles, auth
    methods, binding rules and tokens what they are declared to be, in that order. What nobody
    declares is left alone. A second run writes nothing.
  - When access control was set up before and O(token) does not work, it stops with the recipe.
extends_documentation_fragment: [endpoint]
options:
  bootstrap:
    description: Make O(token) a management token first, if it is not one.
    type: bool
    default: false
  policies:
    description: Policies; O(policies[].rules) is HCL or JSON.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name., type: str, required: true}
      description: {description: What for., type: str, default: ""}
      rules: {description: The rules., type: str, required: true}
  roles:
    description: Roles that bundle policies.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name., type: str, required: true}
      description: {description: What for., type: str, default: ""}
      policies: {description: Names of policies., type: list, elements: str, default: []}
  auth_methods:
    description: Auth methods, for example of type C(jwt) for Nomad's workload identities.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name., type: str, required: true}
      type: {description: Type., type: str, default: jwt}
      description: {description: What for., type: str, default: ""}
      config: {description: What the type takes., type: dict, required: true}
  binding_rules:
    description: What a login through an auth method may do. Method and description identify it.
    type: list
    elements: dict
    default: []
    suboptions:
      auth_method: {description: Name of the auth method., type: str, required: true}
      description: {description: What for., type: str, required: true}
      bind_type:
        description: What is bound.
        type: str
        required: true
        choices: [service, role, node]
      bind_name:
        description: Its name; may hold C(${value.nomad_service}).
        type: str
        required: true
      selector: {description: Which logins it is for., type: str, default: ""}
  tokens:
    description: Tokens, found by O(tokens[].secret), or without one by O(tokens[].accessor).
    type: list
    elements: dict
    default: []
    suboptions:
      description: {description: What for., type: str, required: true}
      secret: {description: Our own secret for it., type: str}
      accessor: {description: Its accessor., type: str}
      policies: {description: Names of policies., type: list, elements: str, default: []}
      roles: {description: Names of roles., type: list, elements: str, default: []}
      node_identities:
        description: Node identities as Consul takes them.
        type: list
        elements: dict
        default: []
      service_identities:
        description: Service identities as Consul takes them.
        type: list
        elements: dict
        default: []
author: [Hearth]
"""

EXAMPLES = """
- name: Apply ACL policies and tokens in Consul
  consul_acl:
    url: "https://{{ consul_server_address }}:8501"
    ca_file: "{{ consul_ca_file }}"
    token: "{{ consul_management_token }}"
    bootstrap: true
    policies:
      - name: nomad-tasks
        rules: 'service_prefix "" { policy = "read" }'
    roles:
      - name: nomad-default-tasks
        policies: [nomad-tasks]
    auth_methods:
      - name: nomad-workloads
        config:
          JWKSURL: "https://{{ nomad_server_address }}:4646/.well-known/jwks.json"
          JWKSCACert: "{{ cluster_authority.certificate }}"
          JWTSupportedAlgs: [RS256]
          BoundAudiences: [consul.io]
          ClaimMappings: {nomad_service: nomad_service, nomad_job_id: nomad_job_id}
    binding_rules:
      - auth_method: nomad-workloads
        description: Services of Nomad register themselves
        bind_type: service
        bind_name: ${value.nomad_service}
        selector: '"nomad_service" in value'
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
"""
