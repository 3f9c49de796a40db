#!/usr/bin/python
"""Reads several files at once: one start of Python instead of one for each of them."""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: contents
short_description: Read text files of a machine
description:
  - What the module C(ansible.builtin.slurp) does, for a list. A file that is not there is empty.
options:
  paths:
    description: Where they are.
    type: list
    elements: path
    required: true
attributes:
  check_mode:
    support: full
    description: Changes nothing.
  diff_mode:
    support: none
    description: There is no difference to show.
author: [Hearth]
"""

EXAMPLES = """
- name: Read the certificate files
  contents:
    paths: [/etc/hearth/tls/ca.pem, /etc/hearth/tls/service.pem]
  register: there
  no_log: true
"""

RETURN = """
texts:
  description: What is in each, in their order. Set C(no_log) where that is a secret.
  returned: always
  type: list
  elements: str
"""


def main() -> None:
    module = AnsibleModule(
        argument_spec={"paths": {"type": "list", "elements": "path", "required": True}},
        supports_check_mode=True,
    )
    files = [Path(path) for path in module.params["paths"]]
    try:
        texts = [file.read_text("utf-8") if file.exists() else "" for file in files]
    except (OSError, UnicodeDecodeError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, texts=texts)


if __name__ == "__main__":
    main()
