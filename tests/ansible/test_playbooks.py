"""In which order playbooks do things, and what they tell, without a cluster."""

import json
import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from tests.ansible import tree

EXTENDED_INPUTS = ["heal_cluster.yaml", "ansible/plugins/**"]

ANSWER = {
    "findings": [
        {"id": "job:pipecatapp", "risk": "safe", "fix": {"action": "run_job"}},
        {"id": "disk:node1", "risk": "safe", "fix": {"action": "by_hand"}},
    ],
    "explained": ["job:pipecatapp: 0 of 1 run", "disk:node1: full"],
}
MODULE = """
from ansible.module_utils.basic import AnsibleModule
names = "consul nomad machines jobs programs roles asked acl disk_share repair heal kinds journal"
names = names.split()
AnsibleModule(dict.fromkeys(names, {"type": "raw"}), supports_check_mode=True)."""

PLAY = """
- name: Compare the cluster
  hosts: all
  gather_facts: false
  vars_files: [{folder}/vars.yaml]
  tasks:
    - name: Compare the cluster with the declared state
      ansible.builtin.import_tasks: {folder}/judge.yaml
"""


def judged(folder: Path, end: str) -> str:
    """What `judge.yaml` says when its module ends with this call."""
    (folder / "cluster_drift.py").write_text(f"{MODULE}{end}\n", encoding="utf-8")
    given = {
        "heal_agents": {"consul": {}, "nomad": {}}, "heal_jobs": {}, "heal_roles": {},
        "heal_repairs": True, "heal_kinds": [], "heal_waits": True, "heal_looks": 1,
        "heal_journal": "journal", "cluster_members": ["node1"], "cluster_security": "none",
        "consul_binary": {}, "nomad_binary": {},
    }  # fmt: skip
    machine = {"ansible_connection": "local", "heal_machine": {}, "heal_asked": 0}
    inventory, play = folder / "inventory.yaml", folder / "play.yaml"
    inventory.write_text(json.dumps({"all": {"hosts": {"node1": machine}}}), encoding="utf-8")
    play.write_text(PLAY.format(folder=tree.ROOT / "ansible" / "playbooks" / "heal"))
    ended = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, play,
         "-e", json.dumps(given)],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_LIBRARY": str(folder)},
    )  # fmt: skip
    assert ended.returncode != 0
    return ended.stdout


@pytest.mark.extended
def test_repair_that_does_not_hold_is_told_with_what_is_still_there(tmp_path: Path) -> None:
    """Who waits two minutes for a repair wants to know what is left, and where to look."""
    said = judged(tmp_path, f"exit_json(**{ANSWER!r})")

    assert "job:pipecatapp: 0 of 1 run" in said
    assert "Not repaired: job:pipecatapp. Read the evidence in journal." in said


def test_look_that_fails_is_told_in_its_own_words(tmp_path: Path) -> None:
    """There is nothing to explain yet, and no secret in it."""
    said = judged(tmp_path, "fail_json(msg='Nobody answers at https://10.0.0.1:8501.')")

    assert "Nobody answers at https://10.0.0.1:8501." in said
    assert "Not repaired" not in said


def test_release_is_brought_to_all_machines_before_the_first_one_changes() -> None:
    """What takes long is done while nobody waits, and what fails there has changed nothing."""
    plays = [play for play in tree.load(tree.ROOT / "upgrade.yaml") if "hosts" in play]

    before = list(takewhile(lambda play: "serial" not in play, plays))
    (in_turn,) = plays[len(before) :]

    assert [task["ansible.builtin.import_role"] for task in before[-1]["tasks"]] == [
        {"name": "hearth_release", "tasks_from": "install.yaml"}
    ]
    assert all(play["any_errors_fatal"] for play in plays)
    assert in_turn["serial"] == 1
    assert [role["role"] for role in in_turn["roles"]][-1] == "hearth_release"


def test_agents_read_a_new_authority_one_after_the_other() -> None:
    """All at once, they close the connections to their leader, and the next play finds none."""
    plays = tree.load(tree.ROOT / "rotate_secrets.yaml")

    (reload,) = [play for play in plays if play["name"] == "Trust the new certificate authority"]

    assert (reload["serial"], reload["any_errors_fatal"]) == (1, True)
    (block,) = [task["block"] for task in reload["tasks"]]
    assert block[-1]["ansible.builtin.include_tasks"] == "ansible/playbooks/tasks/healthy.yaml"
