#!/usr/bin/python
"""Thin on purpose: arguments in, `hearth.cluster.acl` does the work, changes out."""

from ansible.module_utils.basic import AnsibleModule

from hearth.cluster.acl.bootstrap import bootstrap_nomad
from hearth.cluster.acl.change import shown
from hearth.cluster.acl.nomad import Ensured, NomadAcl, ensure, everything_new
from hearth.cluster.endpoint import ARGUMENTS, endpoint_of
from hearth.cluster.errors import ClusterError, Unreachable
from hearth.cluster.nomad import Nomad

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
- name: Set up the access control of Nomad
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


NAME = {"type": "str", "required": True}
TEXT = {"type": "str", "default": ""}
NAMES = {"type": "list", "elements": "str", "default": []}
KINDS = {
    "policies": {"name": NAME, "description": TEXT, "rules": NAME, "job": {"type": "str"}},
    "tokens": {
        "name": NAME,
        "type": {"type": "str", "default": "client", "choices": ["client", "management"]},
        "policies": NAMES,
    },
}


def apply(module: AnsibleModule, wanted: NomadAcl) -> tuple[bool, Ensured]:
    """Whether access control was set up, and what was written."""
    endpoint, write = endpoint_of(module.params), not module.check_mode
    try:
        made = module.params["bootstrap"] and bootstrap_nomad(
            endpoint, module.params["token"], write=write
        )
        if made and not write:
            return True, everything_new(wanted)
        with Nomad(endpoint) as nomad:
            return made, ensure(nomad, wanted, write=write)
    except Unreachable as error:
        if write:
            raise
        module.warn(f"{error} All of it is shown as new.")
        return module.params["bootstrap"], everything_new(wanted)


def main() -> None:
    lists = {
        kind: {
            "type": "list", "elements": "dict", "default": [], "options": options, "no_log": False
        }
        for kind, options in KINDS.items()
    }  # fmt: skip
    module = AnsibleModule(
        argument_spec={**ARGUMENTS, "bootstrap": {"type": "bool", "default": False}, **lists},
        required_if=[("bootstrap", True, ("token",))],
        supports_check_mode=True,
    )
    try:
        made, done = apply(module, NomadAcl(**{kind: module.params[kind] for kind in KINDS}))
    except ClusterError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=made or bool(done.changes),
        bootstrapped=made,
        changes=[f"{change.kind} {change.name}" for change in done.changes],
        tokens=done.tokens,
        diff=shown(done.changes),
    )


if __name__ == "__main__":
    main()
