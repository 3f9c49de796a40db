#!/usr/bin/python
"""Makes many directories at once: one start of Python instead of one for each of them."""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: directories
short_description: Have directories with their owners and modes
description:
  - What the module C(ansible.builtin.file) does with C(state=directory), for a list.
options:
  directories:
    description: In this order; those above come first.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Where it is.
        type: path
        required: true
      owner:
        description: Name of the user.
        type: str
        default: root
      group:
        description: Name of the group.
        type: str
        default: root
      mode:
        description: Its permissions, octal.
        type: str
        default: "0755"
attributes:
  check_mode:
    support: full
    description: Tells which are missing or differ.
  diff_mode:
    support: full
    description: Shows the paths.
author: [Hearth]
"""

EXAMPLES = """
- name: Create directories
  directories:
    directories:
      - path: /opt/hearth
      - {path: /var/lib/hearth/state, owner: hearth, group: hearth, mode: "0750"}
"""

RETURN = """
made:
  description: Those that were missing or differed.
  returned: always
  type: list
  elements: str
"""


def ensure(module, wanted):
    """Make one as it should be; whether that was to be done."""
    path = Path(wanted["path"])
    missing = not path.is_dir()
    if missing and path.exists():
        module.fail_json(msg=f"{path} is there and no directory: move it away, run this again.")
    if missing and module.check_mode:
        return True
    if missing:
        path.mkdir(parents=True)
    known = module.load_file_common_arguments(wanted)
    return module.set_fs_attributes_if_different(known, changed=missing)


def main():
    options = {
        "path": {"type": "path", "required": True},
        "owner": {"type": "str", "default": "root"},
        "group": {"type": "str", "default": "root"},
        "mode": {"type": "str", "default": "0755"},
    }
    module = AnsibleModule(
        argument_spec={
            "directories": {
                "type": "list", "elements": "dict", "required": True, "options": options
            }
        },
        supports_check_mode=True,
    )  # fmt: skip
    made = [one["path"] for one in module.params["directories"] if ensure(module, one)]
    after = "".join(f"{path}\n" for path in made)
    module.exit_json(changed=bool(made), made=made, diff={"before": "", "after": after})


if __name__ == "__main__":
    main()
