#!/usr/bin/python
"""Thin on purpose: arguments in, `hearth.cluster.acl` does the work, changes out."""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from hearth.cluster.acl.bootstrap import bootstrap_consul
from hearth.cluster.acl.change import Change, shown
from hearth.cluster.acl.consul import ConsulAcl, ensure, everything_new
from hearth.cluster.consul import Consul
from hearth.cluster.endpoint import ARGUMENTS, endpoint_of
from hearth.cluster.errors import ClusterError, Unreachable

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
- name: Set up the access control of Consul
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


NAME = {"type": "str", "required": True}
TEXT = {"type": "str", "default": ""}
NAMES = {"type": "list", "elements": "str", "default": []}
DICTS = {"type": "list", "elements": "dict", "default": []}
KINDS = {
    "policies": {"name": NAME, "description": TEXT, "rules": NAME},
    "roles": {"name": NAME, "description": TEXT, "policies": NAMES},
    "auth_methods": {
        "name": NAME,
        "type": {"type": "str", "default": "jwt"},
        "description": TEXT,
        "config": {"type": "dict", "required": True},
    },
    "binding_rules": {
        "auth_method": NAME,
        "description": NAME,
        "bind_type": {"type": "str", "required": True, "choices": ["service", "role", "node"]},
        "bind_name": NAME,
        "selector": TEXT,
    },
    "tokens": {
        "description": NAME,
        "secret": {"type": "str", "no_log": True},
        "accessor": {"type": "str"},
        "policies": NAMES,
        "roles": NAMES,
        "node_identities": DICTS,
        "service_identities": DICTS,
    },
}


def apply(module: AnsibleModule, wanted: ConsulAcl) -> tuple[bool, list[Change]]:
    """Whether access control was set up, and what was written."""
    endpoint, write = endpoint_of(module.params), not module.check_mode
    try:
        made = module.params["bootstrap"] and bootstrap_consul(
            endpoint, module.params["token"], write=write
        )
        if made and not write:
            return True, everything_new(wanted)
        with Consul(endpoint) as consul:
            return made, ensure(consul, wanted, write=write)
    except Unreachable as error:
        if write:
            raise
        module.warn(f"{error} All of it is shown as new.")
        return module.params["bootstrap"], everything_new(wanted)


def main() -> None:
    arguments: dict[str, Any] = {
        kind: {"type": "list", "elements": "dict", "default": [], "options": options}
        for kind, options in KINDS.items()
    }
    arguments["tokens"] |= {"required_one_of": [["secret", "accessor"]], "no_log": False}
    module = AnsibleModule(
        argument_spec={**ARGUMENTS, "bootstrap": {"type": "bool", "default": False}, **arguments},
        required_if=[("bootstrap", True, ("token",))],
        supports_check_mode=True,
    )
    try:
        made, changes = apply(module, ConsulAcl(**{kind: module.params[kind] for kind in KINDS}))
    except ClusterError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=made or bool(changes),
        bootstrapped=made,
        changes=[f"{change.kind} {change.name}" for change in changes],
        diff=shown(changes),
    )


if __name__ == "__main__":
    main()
