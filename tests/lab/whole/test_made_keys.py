"""The keys that people make on a cluster: where they lie, and what becomes of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hearth.lab.lab import Lab
from tests.lab.playbooks import BIN, inventory_of, play, secrets, told
from tests.lab.whole.asking import Unsettled, agent, authority, gateway, patiently, settle

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.nomad,
    pytest.mark.extended,
    pytest.mark.timeout(1500),
]
EXTENDED_INPUTS = [
    "ansible/roles/moe_gateway/**", "moe_gateway/keys/**",
    "nomad_jobs/moe-gateway.nomad.hcl", "pipecatapp/cli/backup.py",
]  # fmt: skip

HEARTH = [str(BIN / "python"), "-m", "hearth"]
Keys = Callable[..., str]
STATE = "/var/lib/hearth/state"


def bring(lab: Lab, **variables: object) -> None:
    """What somebody runs who has changed a line of the inventory that is about the gateway."""
    play(lab, "--tags", "moe_gateway", variables=variables)


@pytest.fixture
def kept(cluster: Lab) -> Iterator[Lab]:
    """The machine of the agent keeps the keys; afterwards nobody does, as before."""
    bring(cluster, moe_gateway_keys_machine="node1")
    yield cluster
    bring(cluster)
    cluster.node("node1").ssh(f"rm {STATE}/keys.db*")
    settle(cluster)


@pytest.fixture
def keys(kept: Lab, tmp_path: Path) -> Keys:
    """`hearth keys` at a desk, with the cluster's own key."""
    file = tmp_path / "admin"
    file.write_text(secrets()["api_key"])
    with gateway(kept, kept.node("node1")) as client:
        where = ["--gateway", str(client.base_url), "--key-file", str(file)]
    where += ["--ca-file", str(authority())]
    return lambda *words: told(kept, [*HEARTH, "keys", *words, *where]).output.strip()


def test_made_keys_outlive_an_update_a_restore_and_a_new_disk(
    kept: Lab, keys: Keys, tmp_path: Path
) -> None:
    """Tablets and programs have them, and somebody would have to go round with new ones."""
    file, inventory = str(tmp_path / "monday.tar.gz"), str(inventory_of(kept, 3))
    tablet, guest = keys("add", "tablet"), keys("add", "guest")
    assert opens(kept, tablet, guest) == [True, True]
    told(kept, [*HEARTH, "backup", "-i", inventory, file])
    keys("revoke", "guest")
    phone = keys("add", "phone")

    bring(kept, moe_gateway_keys_machine="node1", moe_gateway_drain_seconds=19)
    updated = opens(kept, tablet, guest, phone)
    restore(kept, [*HEARTH, "restore", "-i", inventory, file])
    restored = opens(kept, tablet, guest, phone)
    kept.node("node1").ssh(f"rm {STATE}/keys.db*")
    patiently(lambda: expect(kept, tablet, open=False))
    restore(kept, [*HEARTH, "restore", "-i", inventory, file])

    assert updated == restored == [True, False, True]
    patiently(lambda: expect(kept, tablet, open=True))
    assert opens(kept, phone) == [False]


def restore(lab: Lab, words: list[str]) -> None:
    """Return when the agent answers with what was restored."""
    assert told(lab, words).output.startswith("Restored the state of ")

    def answers() -> bool:
        with agent(lab, lab.node("node1")) as client:
            return client.get("/api/status").raise_for_status().is_success

    patiently(answers)


def opens(lab: Lab, *made: str) -> list[bool]:
    """Whether each key opens the gateway."""
    with gateway(lab, lab.node("node1")) as client:
        headers = [{"authorization": f"Bearer {key}"} for key in made]
        found = [client.get("/v1/models", headers=one).status_code for one in headers]
    assert set(found) <= {200, 401}
    return [status == 200 for status in found]


def expect(lab: Lab, key: str, *, open: bool) -> bool:
    """Raises `Unsettled` as long as it is otherwise: the gateway looks once a second."""
    if opens(lab, key) != [open]:
        raise Unsettled(f"the key opens: {not open}")
    return True
