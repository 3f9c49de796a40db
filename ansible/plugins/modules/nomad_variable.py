#!/usr/bin/python
"""Thin on purpose: arguments in, `hearth.cluster.nomad` does the work, names out."""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from hearth.cluster.endpoint import ARGUMENTS, endpoint_of
from hearth.cluster.errors import ClusterError, NotFound, Unreachable
from hearth.cluster.nomad import Nomad

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
- name: Give the gateway its keys
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


def keep(module: AnsibleModule, nomad: Nomad) -> list[str]:
    """Make it so; the names of the items that differ."""
    path = module.params["path"]
    is_there = True
    try:
        index, found = nomad.variable(path)
    except NotFound:
        is_there, index, found = False, 0, {}
    absent = module.params["state"] == "absent"
    wanted = {} if absent else _texts(module.params["items"])
    differing = sorted(k for k in found.keys() | wanted if found.get(k) != wanted.get(k))
    if not differing or module.check_mode:
        return differing
    if absent and is_there:
        nomad.delete_variable(path, index=index)
    else:
        nomad.put_variable(path, wanted, index=index)
    return differing


def _texts(items: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in items.items()}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **ARGUMENTS,
            "path": {"type": "str", "required": True},
            "items": {"type": "dict", "default": {}, "no_log": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    try:
        with Nomad(endpoint_of(module.params)) as nomad:
            differing = keep(module, nomad)
    except Unreachable as error:
        if not module.check_mode:
            module.fail_json(msg=str(error))
        module.warn(f"{error} All items are shown as new.")
        differing = sorted(module.params["items"])
    except ClusterError as error:
        module.fail_json(msg=str(error))
    lines = "".join(f"{name}: (other than before)\n" for name in differing)
    module.exit_json(
        changed=bool(differing),
        changed_items=differing,
        diff={"before": "", "after": lines, "after_header": module.params["path"]},
    )


if __name__ == "__main__":
    main()
