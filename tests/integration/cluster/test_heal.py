"""The playbook that heals, run as a person runs it, on a cluster of one whose agents are real."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hearth.cluster import vault
from hearth.cluster.drift import journal
from hearth.cluster.jobs.deploy import Jobs, Source
from hearth.cluster.nomad import Nomad
from tests.integration.cluster.agents import Agent, wait_for
from tests.integration.cluster.conftest import CONSUL_TOKEN, NOMAD_TOKEN
from tests.integration.cluster.playing import ROOT
from tests.integration.cluster.test_jobs import SERVICE
from tests.shown import Shown

EXTENDED_INPUTS = [
    "heal_cluster.yaml",
    "ansible/plugins/modules/cluster_drift.py",
    "hearth/cluster/*.py",
    "tests/integration/cluster/*.py",
]
LATE = """
job "late" {
  type = "system"
  group "late" {
    update {
      max_parallel = 0
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "late" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo >>STARTS; test $(wc -l <STARTS) -lt 3 || exec sleep 600; exit 3"]
      }
    }
  }
}
"""
"""Its program runs at the third start, as one whose dependency is restarted at the same time."""
COMMAND = "{python}/ansible-playbook -i {inventory} heal_cluster.yaml -e @{variables}"


def _run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        shlex.split(command), cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"HOME": str(folder), "ANSIBLE_VAULT_PASSWORD_FILE": str(folder / "pw")},
    )  # fmt: skip


def test_documented_command_is_accepted(shown: Shown, tmp_path: Path) -> None:
    """A healer that does not start is found out on the worst day."""
    command = shown.take("docs/howto/heal.md").replace("/home.yaml", "/example.yaml")
    (tmp_path / "pw").write_text("pw")

    ended = _run(tmp_path, f"{command} --syntax-check")

    assert ended.returncode == 0, ended.stderr
    assert "playbook: heal_cluster.yaml" in ended.stdout


@pytest.mark.extended
@pytest.mark.nomad
def test_playbook_repairs_what_is_safe_and_looks_again(
    consul_server: Agent, nomad_server: Agent, nomad: Nomad, tmp_path: Path
) -> None:
    """Probe, explanation, repair, a clean second probe, and a record of all of it."""
    for row in nomad.jobs():
        nomad.stop(row.id, purge=True)
    file = tmp_path / "web.nomad.hcl"
    file.write_text(SERVICE.replace("NAME", "web"))
    jobs = Jobs(nomad)
    jobs.register(jobs.plan(Source("x", file.read_text())))
    wait_for(lambda: any(a.runs for a in nomad.allocations("web")), nomad_server)
    nomad.stop("web")
    wait_for(lambda: not any(a.runs for a in nomad.allocations("web")), nomad_server)
    late = _failed_once(tmp_path, nomad, nomad_server)
    command = COMMAND.format(
        python=Path(sys.executable).parent,
        inventory=_inventory(tmp_path),
        variables=_variables(
            tmp_path, consul_server, nomad_server, {"web": str(file), "late": str(late)}
        ),
    )

    looked = _run(tmp_path, f"{command} --check")
    still = any(a.runs for a in nomad.allocations("web"))
    healed = _run(tmp_path, command)
    log = journal.read(tmp_path / "solo.heal.jsonl")

    assert looked.returncode == 0, looked.stdout + looked.stderr
    assert "[safe] job:web: the job web differs" in looked.stdout
    assert "[safe] allocation:late: late has 0 running: failed on " in looked.stdout
    assert not still
    assert healed.returncode == 0, healed.stdout + healed.stderr
    assert all(any(a.runs for a in nomad.allocations(job)) for job in ("web", "late"))
    assert "No drift." in healed.stdout
    assert sorted(log[0]["repaired"]) == ["allocation:late", "job:web"]
    assert "allocation:late" in {name for line in log[1:] for name in line["repaired"]}
    assert log[-1]["findings"] == []
    assert NOMAD_TOKEN not in looked.stdout + healed.stdout + json.dumps(log)
    for job in ("web", "late"):
        nomad.stop(job, purge=True)


def _failed_once(folder: Path, nomad: Nomad, server: Agent) -> Path:
    """Register the job `late` and wait until its first start has failed; return its file."""
    file = folder / "late.nomad.hcl"
    file.write_text(LATE.replace("STARTS", str(folder / "starts")))
    jobs = Jobs(nomad)
    jobs.register(jobs.plan(Source("x", file.read_text())))
    wait_for(lambda: [a.client_status for a in nomad.allocations("late")] == ["failed"], server)
    return file


def _inventory(folder: Path) -> Path:
    """One machine, this one; its secrets are those that the agents were set up with."""
    secrets = folder / "solo.vault.yaml"
    (folder / "pw").write_text("pw")
    known = f"consul_management_token: {CONSUL_TOKEN}\nnomad_management_token: {NOMAD_TOKEN}\n"
    secrets.write_bytes(vault.close(known.encode(), b"pw"))
    machine = {"ansible_connection": "local", "ansible_host": "127.0.0.1",
               "ansible_python_interpreter": sys.executable}  # fmt: skip
    inventory = folder / "inventory.json"
    inventory.write_text(json.dumps({"cluster": {
        "hosts": {"solo": machine},
        "vars": {"cluster_name": "solo", "cluster_secrets_file": str(secrets)},
    }}))  # fmt: skip
    return inventory


def _variables(folder: Path, consul: Agent, nomad: Agent, jobs: dict[str, str]) -> Path:
    """Addresses of the agents, and nothing to look at on this machine but its disk and clock."""
    file = folder / "variables.json"
    both = folder / "both.pem"
    assert consul.endpoint.ca_file is not None
    assert nomad.endpoint.ca_file is not None
    both.write_text(consul.endpoint.ca_file.read_text() + nomad.endpoint.ca_file.read_text())
    agents: dict[str, Any] = {
        "consul": {"url": consul.endpoint.url, "token": CONSUL_TOKEN, "ca_file": str(both)},
        "nomad": {"url": nomad.endpoint.url, "token": NOMAD_TOKEN, "ca_file": str(both)},
    }
    file.write_text(json.dumps({
        "heal_agents": agents, "heal_jobs": jobs, "heal_units": [], "heal_binaries": [],
        "heal_certificates": [], "heal_settings": [], "heal_disks": ["/proc"],
    }))  # fmt: skip
    return file
