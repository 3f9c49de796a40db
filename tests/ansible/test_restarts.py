"""Whether a server may be restarted, as the roles judge what its health endpoint answers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ansible import tree

BIN = Path(sys.executable).parent
SERVERS = ("node1", "node2", "node3")


def _health(ailing: str) -> str:
    """What three servers answer, one of which may be ill, in the words of Nomad's own API."""
    rows = [
        {"Name": f"{name}.global", "Address": f"{name}:4647", "Healthy": name != ailing}
        for name in SERVERS
    ]
    return json.dumps({"FailureTolerance": 0 if ailing else 1, "Servers": rows})


@pytest.mark.parametrize(("ailing", "status", "needed"), [("node3", 429, True), ("", 200, False)])
def test_nomad_is_not_restarted_while_another_server_is_ill(
    ailing: str,
    status: int,
    needed: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    """Nomad answers 429 then and does not call it JSON: `json` of Ansible's `uri` is not there."""
    asked = {"status": status, "content": _health(ailing)}
    known = {
        "__nomad_formed": {"stat": {"exists": True}}, "__nomad_asked": asked,
        "__nomad_before": asked, "nomad_servers": list(SERVERS),
        "nomad_server_addresses": list(SERVERS), "cluster_ports": {"nomad_rpc": 4647},
    }  # fmt: skip
    judged = {"needed": "{{ __nomad_needed }}", "strangers": "{{ __nomad_strangers }}"}
    play = {
        "hosts": "all",
        "gather_facts": False,
        "vars_files": [str(tree.ROLES / "nomad" / "vars" / "main.yaml")],
        "tasks": [{"copy": {"content": "{{ judged | to_json }}", "dest": f"{tmp_path}/told"}}],
        "vars": {"judged": judged},
    }
    inventory = {
        "all": {"hosts": {name: {} for name in SERVERS}, "vars": {**known, **_local()}},
    }
    (tmp_path / "play.json").write_text(json.dumps([play]))
    (tmp_path / "inventory.json").write_text(json.dumps(inventory))
    words = [str(BIN / "ansible-playbook"), "-i", "inventory.json", "-l", "node1", "play.json"]

    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = json.loads((tmp_path / "told").read_text())
    assert told == {"needed": needed, "strangers": [ailing] if ailing else []}


def _local() -> dict[str, str]:
    return {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
