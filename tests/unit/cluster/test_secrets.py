"""Secrets are written before they are used, and survive everything but their owner."""

import stat
import uuid
from base64 import b64decode
from datetime import timedelta
from pathlib import Path

import pytest

from hearth.cluster import vault
from hearth.cluster.acl.rotation import begin, end
from hearth.cluster.certificates import Pair, issue, why_renew
from hearth.cluster.errors import SecretsUnusable
from hearth.cluster.secrets import SecretFile

WANTED = {
    "gossip": "gossip_key", "management": "token", "key": "api_key",
    "login": "password", "authority": "authority",
}  # fmt: skip


def test_each_kind_fits_what_takes_it(tmp_path: Path) -> None:
    """A key that Consul or Nomad refuses would be found out on the last machine of a run."""
    values = SecretFile(tmp_path / "v.yaml", "pw").ensure(WANTED).values

    assert len(b64decode(values["gossip"])) == 32
    assert uuid.UUID(values["management"]).version == 4
    assert values["key"].startswith("sk-hearth-")
    assert len(values["login"]) >= 24
    assert values["authority"]["certificate"].startswith("-----BEGIN CERTIFICATE-----\n")
    assert values["authority"]["key"].startswith("-----BEGIN PRIVATE KEY-----\n")


def test_secret_that_is_there_is_never_replaced(tmp_path: Path) -> None:
    """A second run must use the same keys, or nothing that runs would fit any more."""
    file = tmp_path / "v.yaml"
    first = SecretFile(file, "pw").ensure({"a": "token"})
    content = file.read_bytes()
    again = SecretFile(file, "pw").ensure({"a": "token"})
    more = SecretFile(file, "pw").ensure({"a": "token", "b": "api_key"})

    assert (first.made, again.made, more.made) == (["a"], [], ["b"])
    assert first.values["a"] == again.values["a"] == more.values["a"]
    assert file.read_bytes() != content


def test_file_is_private_encrypted_and_whole(tmp_path: Path) -> None:
    """Nobody else on the controller reads it, and no half of it is ever left."""
    file = tmp_path / "deeper" / "v.yaml"
    made = SecretFile(file, "pw").ensure({"a": "token"})
    file.chmod(0o644)
    SecretFile(file, "pw").ensure({"a": "token"})

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert made.values["a"].encode() not in file.read_bytes()
    assert [f.name for f in file.parent.iterdir()] == ["v.yaml"]


def test_file_that_nothing_can_be_added_to_stays_as_it_is(tmp_path: Path) -> None:
    """Text below `{a: b}` is no YAML: the run would use secrets that no later run can read."""
    file = tmp_path / "v.yaml"
    content = vault.close(b"{hers: kept}\n", b"pw")
    file.write_bytes(content)
    with pytest.raises(SecretsUnusable, match="nothing can be added"):
        SecretFile(file, "pw").ensure({"a": "token"})

    assert file.read_bytes() == content


def test_looking_first_writes_nothing(tmp_path: Path) -> None:
    """`--check` on a virgin cluster leaves no file that a later run would take for real."""
    looked = SecretFile(tmp_path / "v.yaml", "pw").ensure({"a": "token"}, write=False)

    assert looked.made == ["a"]
    assert list(tmp_path.iterdir()) == []


def test_replaced_authority_is_trusted_beside_the_one_before_until_the_end(tmp_path: Path) -> None:
    """Who has changed and who has not are one cluster meanwhile, and a cut makes no third one."""
    file = SecretFile(tmp_path / "v.yaml", "pw")
    before = file.ensure({"authority": "authority", "key": "api_key"}).values
    begin(file, {"authority": "authority"}, None)
    both = file.read()
    begin(file, {"authority": "authority"}, None)
    pair = issue(Pair(**both["authority"]), "desk", ["desk"])

    assert file.read() == both
    assert both["key"] == before["key"]
    assert both["authority"]["certificate"].endswith(before["authority"]["certificate"])
    assert end(file, None) == ["authority"]
    alone = file.read()["authority"]
    assert why_renew(pair, alone["certificate"], ["desk"], renew_before=timedelta()) is None
    assert set(file.read()) == {"authority", "key"}
    assert before["authority"]["certificate"] not in alone["certificate"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"plain: text\n", "not encrypted: run `ansible-vault encrypt"),
        (vault.close(b"a: b\n", b"other"), "the vault password does not open it"),
        (vault.close(b"a: b\n", b"pw")[:-40], "damaged|does not open"),
        (vault.close(b"a: [\n", b"pw"), "not valid YAML"),
        (vault.close(b"just text\n", b"pw"), "not a mapping of names to values"),
    ],
)
def test_unusable_file_is_named_and_left_alone(tmp_path: Path, content: bytes, words: str) -> None:
    """The only copy of the keys is never overwritten by a run that could not read it."""
    file = tmp_path / "v.yaml"
    file.write_bytes(content)

    with pytest.raises(SecretsUnusable, match=words):
        SecretFile(file, "pw").ensure({"a": "token"})

    assert file.read_bytes() == content


def test_unknown_kind_and_empty_password_are_refused(tmp_path: Path) -> None:
    """A misspelt kind must not become a weak secret."""
    with pytest.raises(SecretsUnusable, match="no known kind, tokn"):
        SecretFile(tmp_path / "v.yaml", "pw").ensure({"a": "tokn"})
    with pytest.raises(SecretsUnusable, match="password is empty"):
        SecretFile(tmp_path / "v.yaml", " \n")
