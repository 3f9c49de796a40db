#!/usr/bin/python
"""Compares several files at once: one start of Python instead of two for each of them."""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: differing
short_description: Tell which files are not as they should be
description:
  - A run that changes nothing asks this once, and leaves out the tasks that would write them. It
    writes nothing itself.
options:
  files:
    description: What there should be.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Where it is.
        type: path
        required: true
      content:
        description: All that is in it.
        type: str
        required: true
      mode:
        description: Its permissions, octal.
        type: str
        required: true
      group:
        description: Name of its group; any, where none is said.
        type: str
attributes:
  check_mode:
    support: full
    description: It never changes anything.
author: [Hearth]
"""

EXAMPLES = """
- name: Compare configuration files
  differing:
    files:
      - path: /etc/docker/daemon.json
        content: "{{ lookup('ansible.builtin.template', 'daemon.json.j2') }}"
        mode: "0644"
  register: seen
"""

RETURN = """
paths:
  description: Those that are missing, or differ in what is in them, permissions or group.
  returned: always
  type: list
  elements: str
"""


def differs(wanted):
    """Whether it is missing, or another one."""
    path = Path(wanted["path"])
    if path.is_symlink() or not path.is_file():
        return True
    mode = path.stat().st_mode & 0o7777
    return (
        mode != int(wanted["mode"], 8)
        or wanted["group"] not in {None, path.group()}
        or path.read_bytes() != wanted["content"].encode()
    )


def main():
    options = {
        "path": {"type": "path", "required": True},
        "content": {"type": "str", "required": True},
        "mode": {"type": "str", "required": True},
        "group": {"type": "str"},
    }
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "required": True, "options": options}
        },
        supports_check_mode=True,
    )
    paths = [one["path"] for one in module.params["files"] if differs(one)]
    module.exit_json(changed=False, paths=paths)


if __name__ == "__main__":
    main()
