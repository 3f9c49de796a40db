"""Whether a server may be restarted, as the roles judge what its health endpoint answers."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.ansible import tree

EXTENDED_INPUTS = ["ansible/roles/consul/**", "ansible/roles/nomad/**", "ansible/plugins/**"]

BIN = Path(sys.executable).parent
SERVERS = ("node1", "node2", "node3")


def _health(ailing: str) -> str:
    """What three servers answer, one of which may be ill, in the words of Nomad's own API."""
    rows = [
        {"Name": f"{name}.global", "Address": f"{name}:4647", "Healthy": name != ailing}
        for name in SERVERS
    ]
    return json.dumps({"FailureTolerance": 0 if ailing else 1, "Servers": rows})


@pytest.mark.extended
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
    told = _judge(
        tmp_path, "nomad", known,
        needed="{{ __nomad_needed }}", strangers="{{ __nomad_strangers }}",
    )  # fmt: skip

    assert told == {"needed": needed, "strangers": [ailing] if ailing else []}


@pytest.mark.extended
@pytest.mark.parametrize(
    ("product", "port", "health"), [("consul", 8300, "json"), ("nomad", 4647, "content")]
)
@pytest.mark.parametrize(
    ("ailing", "votes", "may"),
    [("node3", SERVERS, False), ("", ("node1", "node2"), True)],
)
def test_server_steps_down_only_where_the_others_can_do_without_it(
    product: str, port: int, health: str, ailing: str, votes: tuple[str, ...],
    may: bool, tmp_path: Path,  # noqa: FBT001
) -> None:  # fmt: skip
    """Two voters of which one is gone decide nothing, not even that one of them goes."""
    rows = [
        {"Name": name, "ID": name, "Address": f"{name}:{port}", "Healthy": name != ailing,
         "Voter": True}
        for name in votes
    ]  # fmt: skip
    asked = {"Servers": rows}
    known = {
        f"__{product}_before": {
            "status": 429, health: asked if health == "json" else json.dumps(asked),
        },
        "nomad_address": "node1", "cluster_ports": {"nomad_rpc": port},
    }  # fmt: skip

    told = _judge(tmp_path, product, known, may=f"{{{{ __{product}_can_step_down }}}}")

    assert told == {"may": may}


@pytest.mark.extended
@pytest.mark.parametrize("product", ["consul", "nomad"])
@pytest.mark.parametrize(("formed", "patience"), [(False, "few"), (True, "many")])
def test_nobody_waits_for_a_first_leader_that_nobody_can_choose(
    product: str, formed: bool, patience: str, tmp_path: Path,  # noqa: FBT001
) -> None:  # fmt: skip
    """A machine that lost its power in the first run left the others to wait for minutes."""
    known = {
        f"{product}_servers": list(SERVERS), f"{product}_health_retries": 90,
        f"__{product}_formed": {"stat": {"exists": formed}},
    }  # fmt: skip

    told = _judge(
        tmp_path, product, known, failed="node2",
        lost=f"{{{{ __{product}_lost }}}}",
        patience=f"{{{{ 'few' if __{product}_patience | int < 90 else 'many' }}}}",
    )  # fmt: skip

    assert told == {"lost": ["node2"], "patience": patience}


def _judge(
    folder: Path, role: str, known: Mapping[str, object], failed: str = "", **judged: str
) -> dict[str, object]:
    """What expressions of a role's variables come to on node1, once a machine has failed."""
    play = {
        "hosts": "all",
        "gather_facts": False,
        "vars_files": [str(tree.ROLES / role / "vars" / "main.yaml")],
        "tasks": [
            {"fail": {"msg": "no power"}, "when": f"inventory_hostname == '{failed}'"},
            {
                "copy": {"content": "{{ judged | to_json }}", "dest": f"{folder}/told"},
                "when": "inventory_hostname == 'node1'",
            },
        ],
        "vars": {"judged": judged},
    }
    inventory = {
        "all": {"hosts": {name: {} for name in SERVERS}, "vars": {**known, **_local()}},
    }
    (folder / "play.json").write_text(json.dumps([play]))
    (folder / "inventory.json").write_text(json.dumps(inventory))
    words = [str(BIN / "ansible-playbook"), "-i", "inventory.json", "play.json"]

    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)

    assert ran.returncode == (2 if failed else 0), ran.stdout + ran.stderr
    found: dict[str, object] = json.loads((folder / "told").read_text())
    return found


def _local() -> dict[str, str]:
    return {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
