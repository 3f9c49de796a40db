"""What people see of a run: steps, changes, messages and failures."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ansible import tree

ROLE = """
- name: Read something
  ansible.builtin.command: "true"
  changed_when: false
- name: Write the settings
  ansible.builtin.command: "true"
  notify: Restart the agent
- name: Try it in vain
  ansible.builtin.command: "false"
  ignore_errors: true
- name: Include another role
  ansible.builtin.include_role: {name: inner}
"""
INNER = """
- name: Unpack the archive
  ansible.builtin.command: "true"
"""
HANDLERS = """
- name: Restart the agent
  ansible.builtin.command: "true"
"""
PLAY = """
- name: Secrets
  hosts: all
  gather_facts: false
  tasks:
    - name: Check something
      ansible.builtin.assert: {that: true}
- name: Machines
  hosts: all
  gather_facts: false
  roles:
    - role: outer
- name: Services
  hosts: all
  gather_facts: false
  tasks:
    - name: Show what is left to do
      ansible.builtin.debug: {msg: [Make a copy of the file., Then go on.]}
    - name: Stop where the disk is full
      ansible.builtin.assert: {that: inventory_hostname != "rack", fail_msg: "Free 2 GB on /var."}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("progress")
    files = {
        "play.yaml": PLAY,
        "roles/outer/tasks/main.yaml": ROLE,
        "roles/outer/handlers/main.yaml": HANDLERS,
        "roles/inner/tasks/main.yaml": INNER,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    machine = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    machines = {"all": {"hosts": {"desk": machine, "rack": machine}}}
    (folder / "machines.json").write_text(json.dumps(machines))
    return folder


def printed(folder: Path, *options: str) -> str:
    ended = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", "machines.json", "play.yaml",
         *options],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_CONFIG": str(tree.ROOT / "ansible.cfg"),
             "ANSIBLE_ROLES_PATH": str(folder / "roles"), "NO_COLOR": "1"},
    )  # fmt: skip
    assert ended.returncode == 2, ended.stdout + ended.stderr
    # How long it took and which machine was first differ from run to run.
    return re.sub(r" \(\d+ s\)", "", ended.stdout)


def test_steps_are_counted_and_changes_and_failures_named(folder: Path) -> None:
    """A person reads what happens to the machines, not what Ansible does to find it out."""
    said = printed(folder, "--limit", "rack")

    assert said == (
        "[1/3] Secrets\n"
        "  rack: unchanged\n"
        "[2/3] outer\n"
        "  rack: Write the settings\n"
        "  rack: Unpack the archive\n"
        "  rack: Restart the agent\n"
        "  rack: 3 changes\n"
        "[3/3] Services\n"
        "  rack: Make a copy of the file.\n"
        "  rack: Then go on.\n"
        "  rack: FAILED: Stop where the disk is full\n"
        "    Free 2 GB on /var.\n"
        "\nSummary\n"
        "  rack: failed, as shown above\n\n"
    )


def test_each_machine_ends_a_step_with_one_line(folder: Path) -> None:
    """Who waits for ten machines sees which of them are done."""
    said = printed(folder)

    assert "  desk: 3 changes\n" in said
    assert "  rack: 3 changes\n" in said
    assert said.endswith("Summary\n  desk: 3 changes\n  rack: failed, as shown above\n\n")


def test_output_of_ansible_is_shown_on_demand(folder: Path) -> None:
    """Who looks for the cause of a failure needs what the modules returned."""
    said = printed(folder, "-v", "--limit", "rack")

    assert "TASK [outer : Read something]" in said
    assert "PLAY RECAP" in said
    assert "Summary" not in said
