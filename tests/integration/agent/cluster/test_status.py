"""`hearth status` of a cluster: named by settings, or by its inventory."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from hearth.cli import build_cli
from hearth.cluster.secrets import SecretFile
from tests.integration.agent.cluster.test_backup import Kept
from tests.integration.agent.conftest import House
from tests.shown import Shown

EXTENDED_INPUTS = [
    "docs/howto/use-a-cluster.md", "hearth/cluster/endpoint.py", "hearth/local/cluster.py",
]  # fmt: skip

INVENTORY = """
cluster:
  hosts:
    gone:
      ansible_host: 127.0.0.1
      pipecatapp_port: 9
    machine1:
      ansible_host: 127.0.0.1
      pipecatapp_port: {port}
  vars:
    ansible_connection: local
    cluster_name: test
    cluster_security: none
"""


def invoke(*words: str, **environment: str) -> tuple[int, str]:
    done = CliRunner().invoke(build_cli(), list(words), env={"COLUMNS": "160", **environment})
    return done.exit_code, done.output


@pytest.fixture
def settings(house: House, tmp_path: Path) -> dict[str, str]:
    key = tmp_path / "cluster-key"
    key.write_text(house.key)
    return {"HEARTH_CLUSTER_URL": house.address, "HEARTH_CLUSTER_KEY_FILE": str(key)}


def test_cluster_of_the_settings_is_shown(house: House, settings: dict[str, str]) -> None:
    """The page that people keep open, for those who live in a shell."""
    code, told = invoke("status", **settings)

    assert code == 0
    assert "moe-gateway" in told
    assert "scripted" in told
    assert house.address in told


def test_json_is_what_the_page_gets(house: House, settings: dict[str, str]) -> None:
    """Programs read one format, wherever it comes from."""
    code, told = invoke("status", "--json", **settings)

    assert code == 0
    found = json.loads(told)
    assert found["web"] == house.address
    assert [service["name"] for service in found["services"]] == ["moe-gateway"]


def test_ill_service_is_an_exit_code(house: House, settings: dict[str, str]) -> None:
    """A script that watches the cluster reads no table."""
    house.model.expert |= {"healthy": False, "reason": "out of memory"}

    code, told = invoke("status", **settings)

    assert code == 1
    assert "out of memory" in told


def test_wrong_key_is_said(house: House, settings: dict[str, str], tmp_path: Path) -> None:
    """One sentence, not a table that is empty."""
    (tmp_path / "wrong").write_text("sk-hearth-wrong")

    code, told = invoke("status", **settings | {"HEARTH_CLUSTER_KEY_FILE": str(tmp_path / "wrong")})

    assert code == 1
    assert "does not accept the key" in told


def test_inventory_leads_to_the_cluster(empty_house: House, tmp_path: Path) -> None:
    """Who set a cluster up needs neither its address nor its key: Ansible has both."""
    if not (Path(sys.executable).parent / "ansible").exists():
        pytest.skip("there is no Ansible beside this Python")
    house, inventory, password = empty_house, tmp_path / "home.yaml", tmp_path / "password"
    password.write_text("correct horse")
    secrets = SecretFile(tmp_path / "test.vault.yaml", "correct horse")
    key = secrets.ensure({"api_key": "api_key"}).values["api_key"]
    (house.state / "key").write_text(str(key))

    with house.running():
        inventory.write_text(INVENTORY.format(port=urlsplit(house.address).port))
        code, told = invoke(
            "status", "-i", str(inventory), HEARTH_VAULT_PASSWORD_FILE=str(password)
        )

    assert code == 0, told
    assert "moe-gateway" in told
    assert re.search(r"^API +http\S+/v1$", told, re.MULTILINE)
    assert f"in {tmp_path / 'test.vault.yaml'}, encrypted" in " ".join(told.split())
    assert str(key) not in told


@pytest.mark.extended
def test_page_about_a_cluster_works_as_written(
    empty_house: House, tmp_path: Path, shown: Shown
) -> None:
    """Each command of the page, one after the other, as a reader types them."""
    house, here = empty_house, tmp_path / "desk"
    (here / "inventory").mkdir(parents=True)
    (here / "password").write_text("correct horse")
    vault = SecretFile(here / "inventory" / "test.vault.yaml", "correct horse")
    key = str(vault.ensure({"api_key": "api_key"}).values["api_key"])
    for file in (house.state / "key", here / "key"):
        file.write_text(key)
    house.key = key
    kept = Kept(house)
    try:
        port = urlsplit(house.address).port
        (here / "inventory" / "home.yaml").write_text(INVENTORY.format(port=port))
        (here / "address").write_text(house.address)

        told = [_bash(shown.take("docs/howto/use-a-cluster.md"), here) for _ in range(3)]
    finally:
        kept.end()

    assert "scripted" in told[0]
    assert "scripted" in told[1]
    assert "The backup is in monday.tar.gz" in told[2]
    assert "Restored the state of " in told[2]


def _bash(text: str, folder: Path) -> str:
    """What a block prints in that folder; each of its commands must succeed."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HEARTH_VAULT_PASSWORD_FILE": str(folder / "password"),
        "COLUMNS": "160",
    }
    ended = subprocess.run(
        ["bash", "-euc", text], cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.mark.parametrize(
    ("password", "reason"),
    [(None, "no password was given"), ("wrong", "the given password is wrong")],
)
def test_secrets_that_cannot_be_opened_are_told_with_the_remedy(
    tmp_path: Path, password: str | None, reason: str
) -> None:
    """Ansible prints thirty lines about it, of which the last is a bracket."""
    inventory = tmp_path / "home.yaml"
    inventory.write_text(INVENTORY.format(port=9))
    SecretFile(tmp_path / "test.vault.yaml", "correct horse").ensure({"api_key": "api_key"})
    (tmp_path / "password").write_text(password or "")
    named = {"HEARTH_VAULT_PASSWORD_FILE": str(tmp_path / "password")} if password else {}

    code, told = invoke("status", "-i", str(inventory), **named)

    assert code == 1
    assert reason in told
    assert "set HEARTH_VAULT_PASSWORD_FILE" in " ".join(told.split())


def test_inventory_without_a_cluster_is_said(tmp_path: Path) -> None:
    """With the reason that Ansible gives."""
    (tmp_path / "empty.yaml").write_text("cluster: {hosts: {}}\n")

    code, told = invoke("status", "-i", str(tmp_path / "empty.yaml"))

    assert code == 1
    assert "cannot be read" in told
