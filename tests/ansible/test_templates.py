"""Every template renders for every inventory that we ship; the programs take the result."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hearth.cluster import binaries
from hearth.cluster.secrets import SecretFile
from tests.ansible import tree

EXTENDED_INPUTS = [
    "ansible/roles/host/**", "ansible/roles/grafana/**", "ansible/roles/prometheus/**",
    "ansible/plugins/**", "ansible/playbooks/tasks/**",
]  # fmt: skip

pytestmark = pytest.mark.timeout(600)
BIN = Path(sys.executable).parent
RENDER = Path(__file__).with_name("render.yaml")
RENDER_ROLE = Path(__file__).with_name("render_role.yaml")
MAIN = tree.load(tree.ROOT / "group_vars/all/main.yaml")
PORTS = {name: port + 1000 for name, port in MAIN["cluster_ports"].items()}
LOOPBACK = "127.0.0.2"
LITERAL = re.compile(
    r"\b(?!0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}\b|:[1-9]\d{3,4}\b|/var/log/|"
    rf"\b(?:{'|'.join(map(str, MAIN['cluster_ports'].values()))})\b"
)
"""An address, a port, or the place of a log."""
SET_FILTER = r"\|\s*(difference|intersect|symmetric_difference|union)\b"
REGISTERED: dict[str, Any] = {
    "__nomad_probe": {"gpu": {"vendor": "none", "backend": "cpu", "vram_mb": 0}},
    "__prometheus_rules": {"stdout": ""},
    "__host_mirrors": {
        "stdout_lines": [
            "http://mirror.test/debian/ trixie",
            "http://mirror.test/debian/ trixie",
            "http://mirror.test/security/ trixie-security",
        ]
    },
    "host_admins": ["me"],
    "host_apt_components": ["contrib", "non-free"],
}
"""What tasks learn from the machine before they render."""


COMPARE = """
- hosts: localhost
  gather_facts: false
  tasks:
    - template: {src: settings.j2, dest: "{{ folder }}/settings", mode: "0640"}
    - differing: {files: "{{ files }}"}
      register: same
    - template: {src: settings.j2, dest: "{{ folder }}/settings", mode: "0640"}
      register: again
    - command: "{{ item }}"
      loop:
        - cp -p {{ folder }}/settings {{ folder }}/open
        - chmod 0644 {{ folder }}/open
        - cp -p {{ folder }}/settings {{ folder }}/other
        - sed -i s/8500/8501/ {{ folder }}/other
        - ln -s settings {{ folder }}/link
    - differing: {files: "{{ files }}"}
      check_mode: true
      register: others
    - copy: {content: "{{ told | to_json }}", dest: "{{ folder }}/told"}
  vars:
    ports: {consul: 8500}
    wanted: "{{ lookup('ansible.builtin.template', 'settings.j2') }}"
    group: "{{ lookup('ansible.builtin.pipe', 'id -gn') }}"
    files:
      - {path: "{{ folder }}/settings", content: "{{ wanted }}", mode: "0640", group: "{{ group }}"}
      - {path: "{{ folder }}/open", content: "{{ wanted }}", mode: "0640"}
      - {path: "{{ folder }}/other", content: "{{ wanted }}", mode: "0640"}
      - {path: "{{ folder }}/link", content: "{{ wanted }}", mode: "0640"}
      - {path: "{{ folder }}/settings", content: "{{ wanted }}", mode: "0640", group: nobodys}
    told:
      first: "{{ same.paths | map('basename') }}"
      written_again: "{{ again is changed }}"
      then: "{{ others.paths | map('basename') }}"
"""
SETTINGS = """{{ ansible_managed | comment }}
{% for name, port in ports.items() %}
{{ name }} = {{ port }}
{% endfor %}

"""


@dataclass(frozen=True)
class Rendered:
    """Files are called `<machine>.<role>.<file>`."""

    inventory: str
    folder: Path

    def files(self, ending: str) -> list[Path]:
        found = sorted(self.folder.glob(f"*.{ending}"))
        assert found, f"nothing was rendered as {ending}"
        return found


@pytest.fixture(scope="session", params=tree.INVENTORIES, ids=lambda file: file.stem)
def rendered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    """All templates, as Ansible renders them, in a copy of the tree whose roles only render."""
    folder = tmp_path_factory.mktemp("rendered")
    place, out = folder / "tree", folder / "out"
    shutil.copytree(tree.ROLES, place / "roles")
    for role in tree.roles():
        shutil.copy(RENDER_ROLE, place / "roles" / role / "tasks" / "render.yaml")
    shutil.copy(RENDER, place / "render.yaml")
    for name in ("group_vars", "host_vars"):
        (place / name).symlink_to(tree.ROOT / name)
    out.mkdir()
    variables = folder / "variables.json"
    variables.write_text(json.dumps(_variables(folder) | {"render_out": str(out)}))
    settings = {
        "ANSIBLE_CONFIG": str(tree.ROOT / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(place / "roles"),
        "HEARTH_LAB_KEY": str(folder / "key"),
    }
    ended = subprocess.run(
        [BIN / "ansible-playbook", "-i", request.param, "-e", f"@{variables}", "render.yaml"],
        cwd=place, capture_output=True, text=True, check=False, env=os.environ | settings,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
    for bundle in list(out.iterdir()):
        for name, text in json.loads(bundle.read_text()).items():
            bundle.with_name(f"{bundle.name}.{name.removesuffix('.j2')}").write_text(text)
        bundle.unlink()
    return Rendered(request.param.stem, out)


def _variables(folder: Path) -> dict[str, Any]:
    made = SecretFile(folder / "vault.yaml", "a password").ensure(MAIN["cluster_secret_kinds"])
    roles = {file.relative_to(tree.ROLES).parts[0] for file in tree.templates()}
    return REGISTERED | {
        "cluster_loopback": LOOPBACK,
        "cluster_ports": PORTS,
        "cluster_secrets_made": {"secrets": made.values},
        "render_roles": sorted(roles),
    }


@pytest.mark.extended
def test_components_come_from_the_mirrors_that_the_machine_has(rendered: Rendered) -> None:
    """CUDA's libraries are in such a component; a home may use a local mirror of the archive."""
    for file in rendered.files("host.components.sources"):
        text = file.read_text()
        assert re.findall("URIs: (.+)\nSuites: (.+)\nComponents: (.+)", text) == [
            ("http://mirror.test/debian/", "trixie", "contrib non-free"),
            ("http://mirror.test/security/", "trixie-security", "contrib non-free"),
        ]


@pytest.mark.proves("004-31")
def test_every_template_renders_for_every_machine(rendered: Rendered) -> None:
    """A variable that one inventory lacks is found here, not on somebody's machine."""
    machines = tree.load(tree.ROOT / "inventory" / f"{rendered.inventory}.yaml")["cluster"]["hosts"]

    for machine in machines:
        files = [file.name for file in rendered.folder.glob(f"{machine}.*")]
        assert len(files) == len(tree.templates())


def test_no_rendered_file_holds_what_was_to_be_replaced(rendered: Rendered) -> None:
    """`None` or braces in a configuration are a mistake that some programs take silently."""
    for file in rendered.files("*"):
        text = file.read_text()
        assert "{{" not in text, file.name
        assert "None" not in text, file.name


def test_consul_takes_its_configuration(rendered: Rendered) -> None:
    """The judge is the program itself."""
    consul = binaries.find("consul")
    assert consul is not None, "run `python -m tests.binaries.consul`"

    for file in rendered.files("consul.consul.json"):
        peers = file.with_name(file.name.replace(".consul.json", ".peers.json"))
        ended = subprocess.run(
            [consul, "validate", "-config-format=json", file, peers],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.nomad
def test_nomad_takes_its_configuration(rendered: Rendered) -> None:
    """The judge is the program itself."""
    nomad = binaries.find("nomad")
    assert nomad is not None

    for file in rendered.files("nomad.nomad.hcl"):
        peers = file.with_name(file.name.replace(".nomad.hcl", ".peers.hcl"))
        ended = subprocess.run(
            [nomad, "config", "validate", file, peers], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_only_servers_are_configured_as_such(rendered: Rendered) -> None:
    """One server for one or two machines, three for more; never one that sleeps."""
    machines = tree.load(tree.ROOT / "inventory" / f"{rendered.inventory}.yaml")["cluster"]["hosts"]
    awake = [n for n, v in machines.items() if (v or {}).get("power_class") != "sleeps"]
    wanted = awake[: 3 if len(awake) >= 3 else 1]

    servers = [
        file.name.split(".")[0]
        for file in rendered.files("consul.consul.json")
        if json.loads(file.read_text())["server"]
    ]

    assert servers == sorted(wanted)


def test_consul_denies_by_default_and_talks_encrypted(rendered: Rendered) -> None:
    """Security is what one gets without asking for it."""
    for file in rendered.files("consul.consul.json"):
        config = json.loads(file.read_text())
        assert config["acl"]["enabled"]
        assert config["acl"]["default_policy"] == "deny"
        assert config["tls"]["internal_rpc"]["verify_server_hostname"]
        assert len(config["encrypt"]) == 44
        assert config["client_addr"] == LOOPBACK


@pytest.mark.proves("004-30")
def test_addresses_and_ports_are_those_that_were_set(rendered: Rendered) -> None:
    """Where a port is taken one sets another, once: no file keeps the one that was taken."""
    before = {str(port) for port in MAIN["cluster_ports"].values()} | {MAIN["cluster_loopback"]}

    texts = {file.name: file.read_text() for file in rendered.files("*")}
    # Whole words: a random key may have the same four digits in it.
    kept = [
        (name, value)
        for name, text in texts.items()
        for value in before
        if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text)
    ]
    said = [name for name, port in PORTS.items() if any(str(port) in t for t in texts.values())]

    assert kept == []
    assert said == list(PORTS)
    assert [str(file) for file in _that_do() if LITERAL.search(_read(file))] == []


def test_new_leader_misses_a_dead_machine_within_a_minute(rendered: Rendered) -> None:
    """Nomad's own five minutes are five minutes without the expert that ran beside the leader."""
    texts = [file.read_text() for file in rendered.files("nomad.nomad.hcl")]
    servers = [text for text in texts if re.search(r"server \{\s+enabled\s+= true", text)]

    assert servers
    assert all('failover_heartbeat_ttl = "1m"' in text for text in servers)


def test_identities_outlast_a_long_power_cut(rendered: Rendered) -> None:
    """Without a leader nobody signs a new one, and the tasks that need it fail for good. Half of
    its time is left to each; the key that signed it has to be there as long."""
    for text in (file.read_text() for file in rendered.files("nomad.nomad.hcl")):
        hours = [int(found) for found in re.findall(r"\bttl = \"(\d+)h\"", text)]
        kept = re.search(r'root_key_gc_threshold = "(\d+)h"', text)
        assert [value / 2 >= 14 * 24 for value in hours] == [True, True]
        assert "raft_multiplier" not in text or (kept and int(kept[1]) >= max(hours))


def test_docker_configuration_is_json(rendered: Rendered) -> None:
    """Docker does not start with a file that it cannot read."""
    for file in rendered.files("docker.daemon.json"):
        assert json.loads(file.read_text())["live-restore"] is True


def test_ports_between_machines_are_for_them_alone(rendered: Rendered) -> None:
    """llama-rpc runs what it is sent and asks for no key."""
    for file in rendered.files("host.firewall.nft"):
        text = file.read_text()
        assert "counter drop" in text
        assert "tcp dport != 20000-32000 accept" in text


def test_settings_of_a_machine_name_no_other_one(rendered: Rendered) -> None:
    """Who reads them is restarted when they change: not because another machine moved or came."""
    own = _addresses(rendered)

    for machine, address in own.items():
        others = set(own.values()) - {address}
        for name in ("consul.consul.json", "nomad.nomad.hcl"):
            text = (rendered.folder / f"{machine}.{name}").read_text()
            assert [other for other in others if re.search(rf'"{other}[":]', text)] == []
    lists = "".join(file.read_text() for file in rendered.files("peers.*"))
    assert len(own) == 1 or any(address in lists for address in own.values())


def test_lists_are_in_the_order_of_the_inventory(rendered: Rendered) -> None:
    """Ansible's set filters shuffle; a shuffled list is a changed file and a restarted server."""
    for file in rendered.files("consul.peers.json"):
        peers = json.loads(file.read_text())["retry_join"]
        assert peers == sorted(peers)
    shuffled = [
        str(file) for file in tree.templates() if re.search(SET_FILTER, file.read_text("utf-8"))
    ]
    assert shuffled == []


@pytest.mark.extended
def test_file_differs_by_a_word_a_right_or_a_group(tmp_path: Path) -> None:
    """One question for all files of a role: it finds what the module for templates would write."""
    (tmp_path / "settings.j2").write_text(SETTINGS)
    (tmp_path / "play.yaml").write_text(COMPARE)
    words = [
        str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local",
        "-e", f"folder={tmp_path}", "-M", str(tree.ROOT / "ansible/plugins/modules"),
        "-e", f"ansible_python_interpreter={sys.executable}", "play.yaml",
    ]  # fmt: skip

    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads((tmp_path / "told").read_text()) == {
        "first": ["open", "other", "link", "settings"],
        "written_again": False,
        "then": ["open", "other", "link", "settings"],
    }


@pytest.mark.parametrize("role", ["consul", "host", "nomad"])
def test_each_file_is_asked_for_as_it_is_written(role: str) -> None:
    """It stands twice (decision 0147): one that is asked for with other rights than its task gives
    it would be written by each run, or by none. What heals asks a third time."""
    tasks = tree.load(tree.ROLES / role / "tasks" / "configure.yaml")
    asked = next(task["differing"]["files"] for task in tasks if "differing" in task)
    written = [
        task["ansible.builtin.template"]
        for task in tasks
        if f"__{role}_differing.paths" in str(task.get("when"))
    ]
    healed = tree.load(tree.ROOT / "ansible/playbooks/heal/vars.yaml")["heal_settings"]

    assert [
        (one["path"], _named(one["content"]), one["mode"], one.get("group")) for one in asked
    ] == [(one["dest"], one["src"], one["mode"], one.get("group")) for one in written]
    assert {(one["src"], one["mode"]) for one in written} >= {
        (one["template"], one["mode"]) for one in healed if one["role"] == role
    }


def _named(content: str) -> str:
    """The template that a lookup renders."""
    return content.partition("'ansible.builtin.template', '")[2].partition("'")[0]


def _addresses(rendered: Rendered) -> dict[str, str]:
    """Machine -> where the others reach it."""
    said = {file: json.loads(file.read_text()) for file in rendered.files("consul.consul.json")}
    return {file.name.split(".")[0]: told["advertise_addr"] for file, told in said.items()}


def _that_do() -> list[Path]:
    """What acts, instead of saying what may be set: those say it beside a name and a sentence."""
    kinds = ("tasks", "handlers", "vars", "templates")
    roles = [file for kind in kinds for file in tree.ROLES.glob(f"*/{kind}/**/*") if file.is_file()]
    patterns = (
        "*.yaml",
        "ansible/playbooks/**/*.yaml",
        "ansible/molecule/*.yml",
        "nomad_jobs/*.hcl",
    )
    return [*roles, *(file for pattern in patterns for file in tree.ROOT.glob(pattern))]


def _read(file: Path) -> str:
    """Without what is said to people, and without what a job declares as settable."""
    text = re.sub(r'(?ms)^variable "\w+" \{.*?^\}', "", file.read_text(encoding="utf-8"))
    return re.sub(r"(?m)#.*$|^.*fail_msg.*$", "", text)
